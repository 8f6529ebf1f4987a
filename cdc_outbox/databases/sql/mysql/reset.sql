-- name: lock_watermarks
select
    convert(source using utf8mb4), convert(aggregatetype using utf8mb4), convert(aggregateid using utf8mb4), last
from `{watermarks}`
where consumer = convert(:consumer using utf8mb4)
    and (
        :aggregate_type is null
        or aggregatetype = convert(:aggregate_type using utf8mb4)
        and aggregateid = convert(:aggregate_id using utf8mb4)
    )
order by source, aggregatetype, aggregateid
for update;

-- name: count_ids
select count(*) from `{table}` where consumer = convert(:consumer using utf8mb4);

-- name: count_ids_of
select count(*)
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{table}` as known on known.consumer = convert(:consumer using utf8mb4) and known.event_id = wanted.event_id;

-- name: count
select count(*)
from `{table}`
where consumer = convert(:consumer using utf8mb4)
    and (
        :aggregate_type is null
        or aggregatetype = convert(:aggregate_type using utf8mb4)
        and aggregateid = convert(:aggregate_id using utf8mb4)
    );

-- name: count_gone
select count(*)
from `{parked}` as parked
left join json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    start bigint path '$.starts'
)) as kept
    on kept.topic = parked.topic and kept.`partition` = parked.`partition`
where parked.consumer = convert(:consumer using utf8mb4)
    and (
        :aggregate_type is null
        or aggregatetype = convert(:aggregate_type using utf8mb4)
        and aggregateid = convert(:aggregate_id using utf8mb4)
    )
    and (kept.start is null or parked.`offset` < kept.start);

-- name: forget_ids
delete from `{table}` where consumer = convert(:consumer using utf8mb4);

-- name: forget_ids_of
delete known
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    event_id varchar(2300) character set utf8mb4 path '$.event_ids'
)) as wanted
straight_join `{table}` as known on known.consumer = convert(:consumer using utf8mb4) and known.event_id = wanted.event_id;

-- name: forget
delete from `{table}`
where consumer = convert(:consumer using utf8mb4)
    and (
        :aggregate_type is null
        or aggregatetype = convert(:aggregate_type using utf8mb4)
        and aggregateid = convert(:aggregate_id using utf8mb4)
    );

-- name: keep_watermarks
insert into `{watermarks}` (consumer, source, aggregatetype, aggregateid, last)
select convert(:consumer using utf8mb4), kept.source, kept.aggregatetype, kept.aggregateid, kept.last
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    source varchar(500) character set utf8mb4 path '$.sources',
    aggregatetype varchar(500) character set utf8mb4 path '$.aggregate_types',
    aggregateid varchar(1300) character set utf8mb4 path '$.aggregate_ids',
    last bigint path '$.lasts'
)) as kept;

-- name: count_offsets
select count(*) from `{epochs}` where consumer = convert(:consumer using utf8mb4) and next_offset is not null;

-- name: forget_offsets
-- Another epoch, so that no transaction that is still open stores one.
update `{epochs}` set next_offset = null, epoch = epoch + 1 where consumer = convert(:consumer using utf8mb4);
