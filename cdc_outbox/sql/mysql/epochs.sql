-- name: issue
insert into {epochs} (consumer, topic, `partition`, epoch, unfinished)
select convert(:consumer using utf8mb4), wanted.topic, wanted.`partition`, 1, 1
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    place for ordinality,
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions'
)) as wanted
order by wanted.place
on duplicate key update
    epoch = {epochs}.epoch + 1, unfinished = {epochs}.unfinished + 1, assigned_at = utc_timestamp(6);
select convert(held.topic using utf8mb4), held.`partition`, held.epoch, held.unfinished
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions'
)) as wanted
straight_join {epochs} as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`

-- name: find_stale
-- Without a lock, so that a zombie cannot keep its successor from beginning.
select wanted.topic, wanted.`partition`
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    epoch bigint path '$.epochs'
)) as wanted
left join {epochs} as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`
where not held.epoch <=> wanted.epoch

-- name: finish
update json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    epoch bigint path '$.epochs'
)) as wanted
straight_join {epochs} as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`
    and held.epoch = wanted.epoch
set held.unfinished = 0

-- name: start
insert into {starts} (consumer, event_id, started)
values (convert(:consumer using utf8mb4), convert(:event_id using utf8mb4), 1)
on duplicate key update started = started + 1, started_at = utc_timestamp(6);
select started
from {starts}
where consumer = convert(:consumer using utf8mb4) and event_id = convert(:event_id using utf8mb4)

-- name: forget_start
delete from {starts}
where consumer = convert(:consumer using utf8mb4) and event_id = convert(:event_id using utf8mb4)
