-- name: lock_marks
select source, aggregatetype, aggregateid, last
from {watermarks}
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)
order by source, aggregatetype, aggregateid
for update

-- name: count_claims
select count(*) from {inbox} where consumer = :consumer

-- name: count_claims_of
select count(*) from {inbox} where consumer = :consumer and event_id = any(cast(:event_ids as text[]))

-- name: count_parked
select count(*)
from {parked}
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)

-- name: count_holes
select count(*)
from {holes}
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)

-- name: count_gone
select count(*)
from {parked} as parked
left join unnest(
    cast(:topics as text[]), cast(:partitions as integer[]), cast(:starts as bigint[])
) as kept (topic, "partition", start)
    on kept.topic = parked.topic and kept."partition" = parked."partition"
where parked.consumer = :consumer
    and (
        cast(:aggregate_type as text) is null
        or parked.aggregatetype = :aggregate_type and parked.aggregateid = :aggregate_id
    )
    and (kept.start is null or parked."offset" < kept.start)

-- name: forget_claims
delete from {inbox} where consumer = :consumer

-- name: forget_claims_of
delete from {inbox} where consumer = :consumer and event_id = any(cast(:event_ids as text[]))

-- name: forget_starts
delete from {starts} where consumer = :consumer

-- name: forget_starts_of
delete from {starts} where consumer = :consumer and event_id = any(cast(:event_ids as text[]))

-- name: forget_parked
delete from {parked}
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)

-- name: forget_holes
delete from {holes}
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)

-- name: forget_marks
delete from {watermarks}
where consumer = :consumer
    and (cast(:aggregate_type as text) is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)

-- name: keep_marks
insert into {watermarks} (consumer, source, aggregatetype, aggregateid, last)
select :consumer, kept.source, kept.aggregatetype, kept.aggregateid, kept.last
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
    cast(:lasts as bigint[])
) as kept (source, aggregatetype, aggregateid, last)
