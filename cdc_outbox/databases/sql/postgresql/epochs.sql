-- name: issue
-- The topic's id belongs to the next offset: where there is one, it stays the one that this counts in.
insert into "{epochs}" as epoch (consumer, topic, "partition", epoch, unfinished, cluster_id, topic_id)
select :consumer, wanted.topic, wanted."partition", 1, 1, wanted.cluster_id, wanted.topic_id
from unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:cluster_ids as text[]), cast(:topic_ids as text[])
) as wanted (topic, "partition", cluster_id, topic_id)
order by wanted.topic, wanted."partition"
on conflict (consumer, topic, "partition") do update
set
    epoch = epoch.epoch + 1,
    unfinished = epoch.unfinished + 1,
    assigned_at = clock_timestamp(),
    cluster_id = case when epoch.next_offset is null then excluded.cluster_id else epoch.cluster_id end,
    topic_id = case when epoch.next_offset is null then excluded.topic_id else epoch.topic_id end
returning
    epoch.topic, epoch."partition", epoch.epoch, epoch.unfinished, epoch.next_offset, epoch.cluster_id, epoch.topic_id,
    epoch.leader_epoch;

-- name: find_stale
-- Without a lock, so that a zombie cannot keep its successor from beginning.
select wanted.topic, wanted."partition"
from unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:epochs as bigint[])
) as wanted (topic, "partition", epoch)
left join "{epochs}" as held
    on held.consumer = :consumer and held.topic = wanted.topic and held."partition" = wanted."partition"
where held.epoch is distinct from wanted.epoch;

-- name: store_offsets
-- Who was given a partition meanwhile has changed its epoch; who is given it from here on waits for the commit.
with wanted as (
    select *
    from unnest(
        cast(:topics as text[]), cast(:partitions as integer[]), cast(:epochs as bigint[]),
        cast(:befores as bigint[]), cast(:afters as bigint[]), cast(:leader_epochs as integer[])
    ) as wanted (topic, "partition", epoch, before, after, leader_epoch)
),
stored as (
    update "{epochs}" as held
    set next_offset = wanted.after, leader_epoch = coalesce(wanted.leader_epoch, held.leader_epoch)
    from wanted
    where held.consumer = :consumer
        and held.topic = wanted.topic
        and held."partition" = wanted."partition"
        and held.epoch = wanted.epoch
        and coalesce(held.next_offset, -1) = coalesce(wanted.before, held.next_offset, -1)
    returning held.topic, held."partition"
)
select topic, "partition" from wanted except select topic, "partition" from stored;

-- name: finish
update "{epochs}" as epoch
set unfinished = 0
from unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:epochs as bigint[])
) as wanted (topic, "partition", epoch)
where epoch.consumer = :consumer
    and epoch.topic = wanted.topic
    and epoch."partition" = wanted."partition"
    and epoch.epoch = wanted.epoch;

-- name: start
insert into "{starts}" as begun (consumer, event_id, started)
values (:consumer, :event_id, 1)
on conflict (consumer, event_id) do update set started = begun.started + 1, started_at = clock_timestamp()
returning started;

-- name: forget_start
delete from "{starts}" where consumer = :consumer and event_id = :event_id;
