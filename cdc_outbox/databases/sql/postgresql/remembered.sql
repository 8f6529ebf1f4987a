-- name: isolate
-- One view of all tables: an event that leaves the park moves the watermark in the same transaction.
set session characteristics as transaction isolation level repeatable read, read only;

-- name: watermarks
select source, aggregatetype, aggregateid, last
from "{watermarks}"
where consumer = :consumer and (source, aggregatetype, aggregateid) > (:source, :aggregate_type, :aggregate_id)
order by source, aggregatetype, aggregateid
limit :limit;

-- name: parked
select parked_id, source, aggregatetype, aggregateid, topic, event_id, sequence, state, reason
from "{parked}"
where consumer = :consumer and parked_id > :after
order by parked_id
limit :limit;

-- name: holes
select source, aggregatetype, aggregateid, first, last
from "{holes}"
where consumer = :consumer
    and (source, aggregatetype, aggregateid, first) > (:source, :aggregate_type, :aggregate_id, :first)
order by source, aggregatetype, aggregateid, first
limit :limit;

-- name: purged_before
select cast(extract(epoch from pg_catalog.max(purged_before)) as double precision)
from "{purges}"
where consumer = :consumer;

-- name: watermarks_of
select mark.source, mark.aggregatetype, mark.aggregateid, mark.last
from "{watermarks}" as mark
join unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
) as wanted (source, aggregatetype, aggregateid)
    on wanted.source = mark.source
    and wanted.aggregatetype = mark.aggregatetype
    and wanted.aggregateid = mark.aggregateid
where mark.consumer = :consumer;

-- name: topics
select distinct topic from "{epochs}" where consumer = :consumer;
