-- name: limit_locks
-- Nobody else can write by now.
select 1;

-- name: is_known
select
    exists (select 1 from "{epochs}" where consumer = :consumer)
    or exists (select 1 from "{parked}" where consumer = :consumer)
    or exists (select 1 from "{watermarks}" where consumer = :consumer)
    or exists (select 1 from "{inbox}" where consumer = :consumer);

-- name: consumers
select consumer from "{epochs}" union select consumer from "{parked}" order by consumer;

-- name: find
select
    parked_id, state, reason, source, aggregatetype, aggregateid, event_id, type, sequence, blocks, forced, attempts,
    coalesce(error, ''), (julianday(parked_at) - 2440587.5) * 86400.0, (tried_at - 2440587.5) * 86400.0,
    (retry_at - 2440587.5) * 86400.0, topic, "partition", "offset", turn, count(*) over ()
from "{parked}"
where consumer = :consumer
    and (:rows is null or parked_id in (select value ->> '$.parked_ids' from json_each(:rows)))
    and (:state is null or state = :state)
    and (:reason is null or reason = :reason)
    and (:source is null or source = :source)
    and (:aggregate_type is null or aggregatetype = :aggregate_type)
    and (:aggregate_id is null or aggregateid = :aggregate_id)
    and parked_id > :after
order by parked_id
limit :limit;

-- name: read_messages
select parked_id, timestamp_ms, "key", value, headers
from "{parked}"
where consumer = :consumer and parked_id in (select value ->> '$.parked_ids' from json_each(:rows));

-- name: retry
-- What was dead begins anew, with all its attempts.
update "{parked}" as parked
set state = 'waiting', retry_at = julianday('now'), forced = parked.forced or wanted.value ->> '$.forced',
    attempts = case parked.state when 'dead' then 0 else parked.attempts end
from json_each(:rows) as wanted
where parked.consumer = :consumer and parked.parked_id = wanted.value ->> '$.parked_ids';

-- name: note_holes
insert into "{holes}" (consumer, source, aggregatetype, aggregateid, first, last, reason, event_id, note)
select
    :consumer, value ->> '$.sources', value ->> '$.aggregate_types', value ->> '$.aggregate_ids', value ->> '$.firsts',
    value ->> '$.lasts', :reason, value ->> '$.event_ids', :note
from json_each(:rows);

-- name: find_gaps
-- Where sequences have no gaps, what fails or waits behind it stands right after the watermark, and a gap does not.
select parked.source, parked.aggregatetype, parked.aggregateid, mark.last, min(parked.sequence), count(*)
from "{parked}" as parked
join "{watermarks}" as mark
    on mark.consumer = parked.consumer
    and mark.source = parked.source
    and mark.aggregatetype = parked.aggregatetype
    and mark.aggregateid = parked.aggregateid
where parked.consumer = :consumer
    and parked.blocks
    and parked.sequence > mark.last
    and (
        :rows is null
        or exists (
            select 1
            from json_each(:rows) as wanted
            where wanted.value ->> '$.sources' = parked.source
                and wanted.value ->> '$.aggregate_types' = parked.aggregatetype
                and wanted.value ->> '$.aggregate_ids' = parked.aggregateid
        )
    )
group by parked.source, parked.aggregatetype, parked.aggregateid, mark.last
having min(parked.sequence) > mark.last + 1
    and min(parked.sequence) = min(parked.sequence) filter (where parked.reason = 'gap')
order by parked.source, parked.aggregatetype, parked.aggregateid;

-- name: count_unreadable
select count(*) from "{parked}" where consumer = :consumer and reason = 'unreadable';
