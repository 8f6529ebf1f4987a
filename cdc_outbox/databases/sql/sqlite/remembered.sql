-- name: isolate
-- A transaction sees one state of all tables here.
select 1;

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
select (julianday(max(purged_before)) - 2440587.5) * 86400.0
from "{purges}"
where consumer = :consumer;

-- name: watermarks_of
select mark.source, mark.aggregatetype, mark.aggregateid, mark.last
from json_each(:rows) as wanted
cross join "{watermarks}" as mark
    on mark.consumer = :consumer
    and mark.source = wanted.value ->> '$.sources'
    and mark.aggregatetype = wanted.value ->> '$.aggregate_types'
    and mark.aggregateid = wanted.value ->> '$.aggregate_ids';

-- name: topics
select distinct topic from "{epochs}" where consumer = :consumer;
