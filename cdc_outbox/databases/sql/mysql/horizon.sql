-- name: limit_locks
-- Behind who waits for this lock every claim of the id waits; it is tried again instead.
set session innodb_lock_wait_timeout = 1;

-- name: note_purge
insert into `{purges}` (consumer, purged_before)
values (convert(:consumer using utf8mb4), :purged_before)
on duplicate key update purged_before = `{purges}`.purged_before;

-- name: served
select convert(topic using utf8mb4), convert(cluster_id using utf8mb4) from `{epochs}`
union
select convert(topic using utf8mb4), '' from `{parked}`
order by 1, 2;

-- name: next_consumer
select convert(min(consumer) using utf8mb4) from `{inbox}` where consumer > convert(:after using utf8mb4);

-- name: find_page
select convert(max(event_id) using utf8mb4)
from (
    select event_id
    from `{inbox}`
    where consumer = convert(:consumer using utf8mb4)
        and event_id > convert(:after using utf8mb4)
        and event_id < convert(:bound using utf8mb4)
    order by event_id
    limit :limit
) as page;

-- name: forget_page
-- How many rows a statement changed is not asked: it may mean those that it found.
select count(*)
from `{inbox}`
where consumer = convert(:consumer using utf8mb4)
    and event_id > convert(:after using utf8mb4)
    and event_id <= convert(:last using utf8mb4)
    and claimed_at < :before
for update;
-- then
delete from `{inbox}`
where consumer = convert(:consumer using utf8mb4)
    and event_id > convert(:after using utf8mb4)
    and event_id <= convert(:last using utf8mb4)
    and claimed_at < :before;

-- name: count_old
-- With a time of its own both the id and the claim must be old, for the purge that is noted speaks of the ids' own
-- times, and clocks differ.
select
    coalesce(sum(event_id < convert('~' using utf8mb4)), 0), coalesce(sum(event_id >= convert('~' using utf8mb4)), 0)
from `{inbox}`
where claimed_at < :before
    and (event_id >= convert('~' using utf8mb4) or event_id < convert(:bound using utf8mb4));

-- name: count_starts
select count(*) from `{starts}` where started_at < :before;

-- name: forget_starts
select count(*) from `{starts}` where started_at < :before for update;
-- then
delete from `{starts}` where started_at < :before;
