-- name: issue
-- The topic's id belongs to the next offset: where there is one, it stays the one that this counts in.
insert into "{epochs}" as held (consumer, topic, "partition", epoch, unfinished, cluster_id, topic_id)
select
    :consumer, value ->> '$.topics', value ->> '$.partitions', 1, 1, value ->> '$.cluster_ids', value ->> '$.topic_ids'
from json_each(:rows)
where true
on conflict (consumer, topic, "partition") do update
set
    epoch = held.epoch + 1,
    unfinished = held.unfinished + 1,
    assigned_at = excluded.assigned_at,
    cluster_id = iif(held.next_offset is null, excluded.cluster_id, held.cluster_id),
    topic_id = iif(held.next_offset is null, excluded.topic_id, held.topic_id)
returning topic, "partition", epoch, unfinished, next_offset, cluster_id, topic_id, leader_epoch;

-- name: find_stale
select wanted.value ->> '$.topics', wanted.value ->> '$.partitions'
from json_each(:rows) as wanted
left join "{epochs}" as held
    on held.consumer = :consumer
    and held.topic = wanted.value ->> '$.topics'
    and held."partition" = wanted.value ->> '$.partitions'
where held.epoch is not wanted.value ->> '$.epochs';

-- name: store_offsets
-- What is read is what is changed: nobody else can write.
select wanted.value ->> '$.topics', wanted.value ->> '$.partitions'
from json_each(:rows) as wanted
left join "{epochs}" as held
    on held.consumer = :consumer
    and held.topic = wanted.value ->> '$.topics'
    and held."partition" = wanted.value ->> '$.partitions'
where held.epoch is not wanted.value ->> '$.epochs'
    or coalesce(held.next_offset, -1) <> coalesce(wanted.value ->> '$.befores', held.next_offset, -1);
-- then
update "{epochs}" as held
set
    next_offset = wanted.value ->> '$.afters',
    leader_epoch = coalesce(wanted.value ->> '$.leader_epochs', held.leader_epoch)
from json_each(:rows) as wanted
where held.consumer = :consumer
    and held.topic = wanted.value ->> '$.topics'
    and held."partition" = wanted.value ->> '$.partitions'
    and held.epoch = wanted.value ->> '$.epochs'
    and coalesce(held.next_offset, -1) = coalesce(wanted.value ->> '$.befores', held.next_offset, -1);

-- name: finish
update "{epochs}" as held
set unfinished = 0
from json_each(:rows) as wanted
where held.consumer = :consumer
    and held.topic = wanted.value ->> '$.topics'
    and held."partition" = wanted.value ->> '$.partitions'
    and held.epoch = wanted.value ->> '$.epochs';

-- name: start
insert into "{starts}" as begun (consumer, event_id, started)
values (:consumer, :event_id, 1)
on conflict (consumer, event_id) do update set started = begun.started + 1, started_at = excluded.started_at
returning started;

-- name: forget_start
delete from "{starts}" where consumer = :consumer and event_id = :event_id;
