-- name: limit_locks
-- Behind who waits for this lock every claim waits; it is tried again instead.
-- Claims that a policy hides would go with their partition, and no purge of them be noted.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('row_security', 'off', true),
    pg_catalog.set_config('lock_timeout', '500ms', true);

-- name: lock_claims
-- As the drop itself would, but before the purge is noted: whoever claimed an id of it has ended by now, and whoever
-- claims one from now on waits, and then finds the note.
lock table "{inbox}" in access exclusive mode;

-- name: note_purges
-- For the consumers that have old claims in a partition; the others forget nothing. Each step looks up the next consumer
-- in the index.
with recursive found (consumer) as (
    select pg_catalog.min(consumer) from "{claims}"
    union all
    select (select pg_catalog.min(next.consumer) from "{claims}" as next where next.consumer > found.consumer)
    from found
    where found.consumer is not null
)
insert into "{purges}" (consumer, purged_before)
select found.consumer, cast(:purged_before as timestamptz)
from found
where exists (
    select 1
    from "{claims}" as old
    where old.consumer = found.consumer
        and (cast(:before as timestamptz) is null or old.claimed_at < cast(:before as timestamptz))
)
on conflict (consumer, purged_before) do nothing;

-- name: served
select topic, cluster_id from "{epochs}" union select topic, '' from "{parked}" order by topic, cluster_id;

-- name: count_partition
select count(*) from "{partition}";

-- name: drop_partition
drop table "{partition}";

-- name: create_partition
create table "{partition}" (like "{inbox}" including all);

-- name: lock_rest
-- What is moved must be all when the partition is attached, which takes this lock anyway.
lock table "{rest}" in access exclusive mode;

-- name: count_rest
select count(*)
from (
    select from "{rest}"
    where event_id >= '{from_literal}' and event_id < '{to_literal}'
    limit :most
) as found;

-- name: move_rest
with moved as (
    delete from "{rest}" where event_id >= '{from_literal}' and event_id < '{to_literal}'
    returning consumer, event_id, claimed_at
)
insert into "{partition}" (consumer, event_id, claimed_at) select consumer, event_id, claimed_at from moved;

-- name: attach_partition
-- Unlike `create table … partition of` this lets who claims go on; only who claims in the rest waits.
alter table "{inbox}" attach partition "{partition}" for values from ('{from_literal}') to ('{to_literal}');

-- name: count_old
-- What lies in the rest has a time of its own or none; with one, both it and the claim must be old, for the purge that
-- is noted speaks of the ids' own times, and clocks differ.
select count(*) filter (where event_id < '~'), count(*) filter (where event_id >= '~')
from "{rest}"
where claimed_at < :before and (event_id >= '~' or event_id < :bound);

-- name: count_pages
select
    pg_catalog.pg_relation_size(pg_catalog.to_regclass('{rest_literal}'))
    / cast(pg_catalog.current_setting('block_size') as bigint);

-- name: forget_pages
-- By pages, because no index knows when an id was claimed, and one would have to be kept by every claim.
with gone as (
    delete from "{rest}"
    where ctid >= cast(:first as tid)
        and ctid < cast(:last as tid)
        and claimed_at < :before
        and (event_id >= '~' or event_id < :bound)
    returning event_id
)
select count(*) filter (where event_id < '~'), count(*) filter (where event_id >= '~') from gone;

-- name: count_starts
select count(*) from "{starts}" where started_at < :before;

-- name: forget_starts
with gone as (delete from "{starts}" where started_at < :before returning 1) select count(*) from gone;
