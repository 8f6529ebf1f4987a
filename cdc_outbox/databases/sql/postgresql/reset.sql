-- name: lock_watermarks
select source, aggregatetype, aggregateid, last
from "{watermarks}"
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)
order by source, aggregatetype, aggregateid
for update;

-- name: count_ids
select count(*) from "{table}" where consumer = :consumer;

-- name: count_ids_of
select count(*) from "{table}" where consumer = :consumer and event_id = any(cast(:event_ids as text[]));

-- name: count
select count(*)
from "{table}"
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id);

-- name: count_gone
select count(*)
from "{parked}" as parked
left join unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:starts as bigint[])
) as kept (topic, "partition", start)
    on kept.topic = parked.topic and kept."partition" = parked."partition"
where parked.consumer = :consumer
    and (
        cast(:aggregate_type as text) is null
        or parked.aggregatetype = :aggregate_type and parked.aggregateid = :aggregate_id
    )
    and (kept.start is null or parked."offset" < kept.start);

-- name: forget_ids
delete from "{table}" where consumer = :consumer;

-- name: forget_ids_of
delete from "{table}" where consumer = :consumer and event_id = any(cast(:event_ids as text[]));

-- name: forget
delete from "{table}"
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id);

-- name: keep_watermarks
insert into "{watermarks}" (consumer, source, aggregatetype, aggregateid, last)
select :consumer, kept.source, kept.aggregatetype, kept.aggregateid, kept.last
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
    cast(:lasts as bigint[])
) as kept (source, aggregatetype, aggregateid, last);

-- name: count_offsets
select count(*) from "{epochs}" where consumer = :consumer and next_offset is not null;

-- name: forget_offsets
-- Another epoch, so that no transaction that is still open stores one.
update "{epochs}" set next_offset = null, epoch = epoch + 1 where consumer = :consumer;
