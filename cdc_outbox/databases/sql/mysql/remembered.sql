-- name: isolate
-- One view of all tables: an event that leaves the park moves the watermark in the same transaction.
set session transaction isolation level repeatable read;

-- name: watermarks
select
    convert(source using utf8mb4), convert(aggregatetype using utf8mb4), convert(aggregateid using utf8mb4), last
from `{watermarks}`
where consumer = convert(:consumer using utf8mb4)
    and (source, aggregatetype, aggregateid) > (
        convert(:source using utf8mb4), convert(:aggregate_type using utf8mb4), convert(:aggregate_id using utf8mb4)
    )
order by source, aggregatetype, aggregateid
limit :limit;

-- name: parked
select
    parked_id, convert(source using utf8mb4), convert(aggregatetype using utf8mb4), convert(aggregateid using utf8mb4),
    convert(topic using utf8mb4), convert(event_id using utf8mb4), sequence, state, reason
from `{parked}`
where consumer = convert(:consumer using utf8mb4) and parked_id > :after
order by parked_id
limit :limit;

-- name: holes
select
    convert(source using utf8mb4), convert(aggregatetype using utf8mb4), convert(aggregateid using utf8mb4), first, last
from `{holes}`
where consumer = convert(:consumer using utf8mb4)
    and (source, aggregatetype, aggregateid, first) > (
        convert(:source using utf8mb4), convert(:aggregate_type using utf8mb4), convert(:aggregate_id using utf8mb4),
        :first
    )
order by source, aggregatetype, aggregateid, first
limit :limit;

-- name: purged_before
select timestampdiff(microsecond, '1970-01-01', max(purged_before)) / 1000000
from `{purges}`
where consumer = convert(:consumer using utf8mb4);

-- name: watermarks_of
select
    convert(mark.source using utf8mb4), convert(mark.aggregatetype using utf8mb4),
    convert(mark.aggregateid using utf8mb4), mark.last
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids'
)) as wanted
straight_join `{watermarks}` as mark
    on mark.consumer = convert(:consumer using utf8mb4)
    and mark.source = wanted.source
    and mark.aggregatetype = wanted.aggregatetype
    and mark.aggregateid = wanted.aggregateid;

-- name: topics
select distinct convert(topic using utf8mb4) from `{epochs}` where consumer = convert(:consumer using utf8mb4);
