-- name: lock_watermarks
select source, aggregatetype, aggregateid, last
from "{watermarks}"
where consumer = :consumer
    and (:aggregate_type is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id)
order by source, aggregatetype, aggregateid;

-- name: count_ids
select count(*) from "{table}" where consumer = :consumer;

-- name: count_ids_of
select count(*)
from "{table}"
where consumer = :consumer and event_id in (select value ->> '$.event_ids' from json_each(:rows));

-- name: count
select count(*)
from "{table}"
where consumer = :consumer
    and (:aggregate_type is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id);

-- name: count_gone
select count(*)
from "{parked}" as parked
left join json_each(:rows) as kept
    on kept.value ->> '$.topics' = parked.topic and kept.value ->> '$.partitions' = parked."partition"
where parked.consumer = :consumer
    and (:aggregate_type is null or parked.aggregatetype = :aggregate_type and parked.aggregateid = :aggregate_id)
    and (kept.value is null or parked."offset" < kept.value ->> '$.starts');

-- name: forget_ids
delete from "{table}" where consumer = :consumer;

-- name: forget_ids_of
delete from "{table}"
where consumer = :consumer and event_id in (select value ->> '$.event_ids' from json_each(:rows));

-- name: forget
delete from "{table}"
where consumer = :consumer
    and (:aggregate_type is null or aggregatetype = :aggregate_type and aggregateid = :aggregate_id);

-- name: keep_watermarks
insert into "{watermarks}" (consumer, source, aggregatetype, aggregateid, last)
select
    :consumer, value ->> '$.sources', value ->> '$.aggregate_types', value ->> '$.aggregate_ids', value ->> '$.lasts'
from json_each(:rows);

-- name: count_offsets
select count(*) from "{epochs}" where consumer = :consumer and next_offset is not null;

-- name: forget_offsets
-- Another epoch, so that no transaction that is still open stores one.
update "{epochs}" set next_offset = null, epoch = epoch + 1 where consumer = :consumer;
