-- name: issue
insert into {epochs} as epoch (consumer, topic, "partition", epoch, unfinished)
select :consumer, wanted.topic, wanted."partition", 1, 1
from unnest(cast(:topics as text[]), cast(:partitions as integer[])) as wanted (topic, "partition")
order by wanted.topic, wanted."partition"
on conflict (consumer, topic, "partition") do update
set epoch = epoch.epoch + 1, unfinished = epoch.unfinished + 1, assigned_at = clock_timestamp()
returning epoch.topic, epoch."partition", epoch.epoch, epoch.unfinished

-- name: find_stale
-- Without a lock, so that a zombie cannot keep its successor from beginning.
select wanted.topic, wanted."partition"
from unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:epochs as bigint[])
) as wanted (topic, "partition", epoch)
left join {epochs} as held
    on held.consumer = :consumer and held.topic = wanted.topic and held."partition" = wanted."partition"
where held.epoch is distinct from wanted.epoch

-- name: finish
update {epochs} as epoch
set unfinished = 0
from unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:epochs as bigint[])
) as wanted (topic, "partition", epoch)
where epoch.consumer = :consumer
    and epoch.topic = wanted.topic
    and epoch."partition" = wanted."partition"
    and epoch.epoch = wanted.epoch

-- name: start
insert into {starts} as begun (consumer, event_id, started)
values (:consumer, :event_id, 1)
on conflict (consumer, event_id) do update set started = begun.started + 1, started_at = clock_timestamp()
returning started

-- name: forget_start
delete from {starts} where consumer = :consumer and event_id = :event_id
