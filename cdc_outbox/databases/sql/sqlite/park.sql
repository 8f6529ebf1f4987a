-- name: find_parked
select event_id, source, aggregatetype, aggregateid, sequence
from "{parked}"
where consumer = :consumer and event_id in (select value ->> '$.event_ids' from json_each(:rows));

-- name: add
-- What has no number comes after all that waits there already.
insert into "{parked}" (
    consumer, source, aggregatetype, aggregateid, event_id, type, sequence, turn, state, reason, blocks, error, attempts,
    retry_at, topic, "partition", "offset", timestamp_ms, "key", value, headers, bytes
)
values (
    :consumer, :source, :aggregate_type, :aggregate_id, :event_id, :type, :sequence,
    coalesce(
        :sequence,
        (
            select max(before_it.turn)
            from "{parked}" as before_it
            where before_it.consumer = :consumer
                and before_it.source = :source
                and before_it.aggregatetype = :aggregate_type
                and before_it.aggregateid = :aggregate_id
                and before_it.blocks = true
        ),
        0
    ),
    :state, :reason, :blocks, :error, :attempts, julianday('now') + :retry_seconds / 86400.0, :topic, :partition, :offset, :timestamp_ms, :key, :value,
    :headers, :bytes
)
on conflict (consumer, event_id) do nothing;

-- name: remove
delete from "{parked}" where consumer = :consumer and parked_id in (select value ->> '$.parked_ids' from json_each(:rows));

-- name: fail
update "{parked}"
set state = :state, reason = :reason, blocks = :blocks, error = :error, attempts = :attempts,
    forced = forced and :state = 'waiting', tried_at = julianday('now'),
    retry_at = julianday('now') + :retry_seconds / 86400.0
where consumer = :consumer and parked_id = :parked_id;

-- name: rest
update "{parked}"
set retry_at = null
where consumer = :consumer and parked_id in (select value ->> '$.parked_ids' from json_each(:rows));

-- name: wake
-- Where a successor is named, nothing later can be next, and what is before it contradicts what was applied; where
-- none is, the first one parked.
update "{parked}" as parked
set retry_at = julianday('now')
from json_each(:rows) as moved
where parked.consumer = :consumer
    and parked.source = moved.value ->> '$.sources'
    and parked.aggregatetype = moved.value ->> '$.aggregate_types'
    and parked.aggregateid = moved.value ->> '$.aggregate_ids'
    and parked.state = 'waiting'
    and parked.blocks
    and parked.retry_at is null
    and (
        parked.sequence <= moved.value ->> '$.successors'
        or moved.value ->> '$.successors' is null and parked.parked_id = (
            select min(head.parked_id)
            from "{parked}" as head
            where head.consumer = parked.consumer
                and head.source = parked.source
                and head.aggregatetype = parked.aggregatetype
                and head.aggregateid = parked.aggregateid
                and head.blocks
        )
    )
returning parked_id;

-- name: find_due
-- As many as are looked at in one go, however many there are.
select due.parked_id, due.source, due.aggregatetype, due.aggregateid, due.blocks, due.bytes
from "{parked}" as due
where due.consumer = :consumer
    and due.state = 'waiting'
    and due.retry_at <= julianday('now')
    and (due.topic, due."partition") in (
        select owned.value ->> '$.topics', owned.value ->> '$.partitions' from json_each(:rows) as owned
    )
order by due.retry_at, due.parked_id
limit :limit;

-- name: find_chains
-- Of each aggregate what was parked first, in the order in which it is applied.
select wanted.key + 1, chain.parked_id, chain.bytes
from json_each(:rows) as wanted
cross join "{parked}" as chain
where chain.parked_id in (
    select waiting.parked_id
    from "{parked}" as waiting
    where waiting.consumer = :consumer
        and waiting.source = wanted.value ->> '$.sources'
        and waiting.aggregatetype = wanted.value ->> '$.aggregate_types'
        and waiting.aggregateid = wanted.value ->> '$.aggregate_ids'
        and waiting.blocks = true
    order by waiting.turn, waiting.parked_id
    limit :share
)
order by wanted.key, chain.turn, chain.parked_id;

-- name: read
select
    parked.parked_id, parked.event_id, parked.state, parked.reason, parked.blocks, parked.forced, parked.attempts,
    parked.topic, parked."partition", parked."offset", parked.timestamp_ms, parked."key", parked.value, parked.headers,
    coalesce(parked.state = 'waiting' and parked.retry_at <= julianday('now'), false),
    parked.source, parked.aggregatetype, parked.aggregateid
from "{parked}" as parked
where parked.consumer = :consumer and parked.parked_id in (select value ->> '$.parked_ids' from json_each(:rows))
order by parked.source, parked.aggregatetype, parked.aggregateid, parked.turn, parked.parked_id;

-- name: find_partitions
select distinct topic, "partition" from "{parked}" where consumer = :consumer and state = 'waiting';

-- name: count
-- Aggregates whose first parked event waits for one that is missing; what waits behind a failed one does not, nor what
-- is due.
with missing as (
    select source, aggregatetype, aggregateid
    from "{parked}"
    where consumer = :consumer and blocks
    group by source, aggregatetype, aggregateid
    having min(sequence) = min(sequence) filter (where reason = 'gap' and retry_at is null)
)
select
    parked.state, parked.reason, count(*), sum(parked.bytes), count(missing.source),
    (julianday('now') - julianday(min(parked.parked_at) filter (where missing.source is not null))) * 86400.0
from "{parked}" as parked
left join missing
    on parked.blocks
    and missing.source = parked.source
    and missing.aggregatetype = parked.aggregatetype
    and missing.aggregateid = parked.aggregateid
where parked.consumer = :consumer
group by parked.state, parked.reason;
