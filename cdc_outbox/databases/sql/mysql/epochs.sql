-- name: issue
-- The topic's id belongs to the next offset: where there is one, it stays the one that this counts in.
insert into `{epochs}` (consumer, topic, `partition`, epoch, unfinished, cluster_id, topic_id)
select
    convert(:consumer using utf8mb4), wanted.topic, wanted.`partition`, 1, 1, wanted.new_cluster_id, wanted.new_topic_id
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    place for ordinality,
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    new_cluster_id varchar(255) character set utf8mb4 path '$.cluster_ids',
    new_topic_id varchar(255) character set utf8mb4 path '$.topic_ids'
)) as wanted
order by wanted.place
on duplicate key update
    epoch = `{epochs}`.epoch + 1,
    unfinished = `{epochs}`.unfinished + 1,
    assigned_at = utc_timestamp(6),
    cluster_id = if(`{epochs}`.next_offset is null, wanted.new_cluster_id, `{epochs}`.cluster_id),
    topic_id = if(`{epochs}`.next_offset is null, wanted.new_topic_id, `{epochs}`.topic_id);
-- then
select
    convert(held.topic using utf8mb4), held.`partition`, held.epoch, held.unfinished, held.next_offset,
    convert(held.cluster_id using utf8mb4), convert(held.topic_id using utf8mb4), held.leader_epoch
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions'
)) as wanted
straight_join `{epochs}` as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`;

-- name: find_stale
-- Without a lock, so that a zombie cannot keep its successor from beginning.
select wanted.topic, wanted.`partition`
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    epoch bigint path '$.epochs'
)) as wanted
left join `{epochs}` as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`
where not held.epoch <=> wanted.epoch;

-- name: store_offsets
-- Who was given a partition meanwhile has changed its epoch; who is given it from here on waits for the commit. What is
-- locked is what is changed.
select wanted.topic, wanted.`partition`
from json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    epoch bigint path '$.epochs',
    offset_before bigint path '$.befores'
)) as wanted
left join `{epochs}` as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`
where not held.epoch <=> wanted.epoch
    or coalesce(held.next_offset, -1) <> coalesce(wanted.offset_before, held.next_offset, -1)
for update;
-- then
update json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    epoch bigint path '$.epochs',
    offset_before bigint path '$.befores',
    offset_after bigint path '$.afters',
    new_leader_epoch int path '$.leader_epochs'
)) as wanted
straight_join `{epochs}` as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`
    and held.epoch = wanted.epoch
    and coalesce(held.next_offset, -1) = coalesce(wanted.offset_before, held.next_offset, -1)
set
    held.next_offset = wanted.offset_after,
    held.leader_epoch = coalesce(wanted.new_leader_epoch, held.leader_epoch);

-- name: finish
update json_table(convert(:rows using utf8mb4), '$[*]' columns (
    topic varchar(255) character set utf8mb4 path '$.topics',
    `partition` int path '$.partitions',
    epoch bigint path '$.epochs'
)) as wanted
straight_join `{epochs}` as held
    on held.consumer = convert(:consumer using utf8mb4)
    and held.topic = wanted.topic
    and held.`partition` = wanted.`partition`
    and held.epoch = wanted.epoch
set held.unfinished = 0;

-- name: start
insert into `{starts}` (consumer, event_id, started)
values (convert(:consumer using utf8mb4), convert(:event_id using utf8mb4), 1)
on duplicate key update started = started + 1, started_at = utc_timestamp(6);
-- then
select started
from `{starts}`
where consumer = convert(:consumer using utf8mb4) and event_id = convert(:event_id using utf8mb4);

-- name: forget_start
delete from `{starts}`
where consumer = convert(:consumer using utf8mb4) and event_id = convert(:event_id using utf8mb4);
