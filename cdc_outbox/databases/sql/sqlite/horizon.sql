-- name: limit_locks
-- Nobody else can write by now.
select 1;

-- name: note_purge
insert into "{purges}" (consumer, purged_before)
values (:consumer, :purged_before)
on conflict (consumer, purged_before) do nothing;

-- name: served
select topic, cluster_id from "{epochs}" union select topic, '' from "{parked}" order by topic, cluster_id;

-- name: next_consumer
select min(consumer) from "{inbox}" where consumer > :after;

-- name: find_page
select max(event_id)
from (
    select event_id
    from "{inbox}"
    where consumer = :consumer and event_id > :after and event_id < :bound
    order by event_id
    limit :limit
) as page;

-- name: forget_page
select count(*)
from "{inbox}"
where consumer = :consumer and event_id > :after and event_id <= :last and claimed_at < :before;
-- then
delete from "{inbox}"
where consumer = :consumer and event_id > :after and event_id <= :last and claimed_at < :before;

-- name: count_old
-- With a time of its own both the id and the claim must be old, for the purge that is noted speaks of the ids' own
-- times, and clocks differ.
select count(*) filter (where event_id < '~'), count(*) filter (where event_id >= '~')
from "{inbox}"
where claimed_at < :before and (event_id >= '~' or event_id < :bound);

-- name: count_starts
select count(*) from "{starts}" where started_at < :before;

-- name: forget_starts
select count(*) from "{starts}" where started_at < :before;
-- then
delete from "{starts}" where started_at < :before;
