-- name: find_parked
select event_id, source, aggregatetype, aggregateid, sequence
from "{parked}"
where consumer = :consumer and event_id = any(cast(:event_ids as text[]));

-- name: add
-- What has no number comes after all that waits there already.
insert into "{parked}" (
    consumer, source, aggregatetype, aggregateid, event_id, type, sequence, turn, state, reason, blocks, error, attempts,
    retry_at, topic, "partition", "offset", timestamp_ms, "key", value, headers, bytes
)
values (
    :consumer, :source, :aggregate_type, :aggregate_id, :event_id, :type, cast(:sequence as bigint),
    coalesce(
        cast(:sequence as bigint),
        (
            select pg_catalog.max(before_it.turn)
            from "{parked}" as before_it
            where before_it.consumer = :consumer
                and before_it.source = :source
                and before_it.aggregatetype = :aggregate_type
                and before_it.aggregateid = :aggregate_id
                and before_it.blocks
        ),
        0
    ),
    :state, :reason, :blocks, :error, :attempts,
    clock_timestamp() + pg_catalog.make_interval(secs => cast(:retry_seconds as double precision)),
    :topic, :partition, :offset, cast(:timestamp_ms as bigint), cast(:key as bytea), cast(:value as bytea), :headers, :bytes
)
on conflict (consumer, event_id) do nothing;

-- name: remove
delete from "{parked}" where consumer = :consumer and parked_id = any(cast(:parked_ids as bigint[]));

-- name: fail
update "{parked}"
set state = :state, reason = :reason, blocks = :blocks, error = :error, attempts = :attempts,
    forced = forced and :state = 'waiting', tried_at = clock_timestamp(),
    retry_at = clock_timestamp() + pg_catalog.make_interval(secs => cast(:retry_seconds as double precision))
where consumer = :consumer and parked_id = :parked_id;

-- name: rest
update "{parked}" set retry_at = null where consumer = :consumer and parked_id = any(cast(:parked_ids as bigint[]));

-- name: wake
-- Where a successor is named, nothing later can be next, and what is before it contradicts what was applied; where
-- none is, the first one parked.
update "{parked}" as parked
set retry_at = clock_timestamp()
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
    cast(:successors as bigint[])
) as moved (source, aggregatetype, aggregateid, successor)
where parked.consumer = :consumer
    and parked.source = moved.source
    and parked.aggregatetype = moved.aggregatetype
    and parked.aggregateid = moved.aggregateid
    and parked.state = 'waiting'
    and parked.blocks
    and parked.retry_at is null
    and (
        parked.sequence <= moved.successor
        or moved.successor is null and parked.parked_id = (
            select pg_catalog.min(head.parked_id)
            from "{parked}" as head
            where head.consumer = :consumer
                and head.source = moved.source
                and head.aggregatetype = moved.aggregatetype
                and head.aggregateid = moved.aggregateid
                and head.blocks
        )
    )
returning parked.parked_id;

-- name: find_due
-- As many as are looked at in one go, however many there are. The index takes no time that changes within a statement.
select due.parked_id, due.source, due.aggregatetype, due.aggregateid, due.blocks, due.bytes
from "{parked}" as due
where due.consumer = :consumer
    and due.state = 'waiting'
    and due.retry_at <= statement_timestamp()
    and (due.topic, due."partition") in (
        select owned.topic, owned."partition"
        from unnest(cast(:topics as text[]), cast(:partitions as integer[])) as owned (topic, "partition")
    )
order by due.retry_at, due.parked_id
limit :limit;

-- name: find_chains
-- Of each aggregate what was parked first, in the order in which it is applied.
select wanted.number, chain.parked_id, chain.bytes
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
) with ordinality as wanted (source, aggregatetype, aggregateid, number)
cross join lateral (
    select waiting.parked_id, waiting.turn, waiting.bytes
    from "{parked}" as waiting
    where waiting.consumer = :consumer
        and waiting.source = wanted.source
        and waiting.aggregatetype = wanted.aggregatetype
        and waiting.aggregateid = wanted.aggregateid
        and waiting.blocks
    order by waiting.turn, waiting.parked_id
    limit :share
) as chain
order by wanted.number, chain.turn, chain.parked_id;

-- name: read
select
    parked.parked_id, parked.event_id, parked.state, parked.reason, parked.blocks, parked.forced, parked.attempts,
    parked.topic, parked."partition", parked."offset", parked.timestamp_ms, parked."key", parked.value, parked.headers,
    coalesce(parked.state = 'waiting' and parked.retry_at <= clock_timestamp(), false),
    parked.source, parked.aggregatetype, parked.aggregateid
from "{parked}" as parked
where parked.consumer = :consumer and parked.parked_id = any(cast(:parked_ids as bigint[]))
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
    having pg_catalog.min(sequence) = pg_catalog.min(sequence) filter (where reason = 'gap' and retry_at is null)
)
select
    parked.state, parked.reason, count(*), cast(pg_catalog.sum(parked.bytes) as bigint), pg_catalog.count(missing.source),
    cast(extract(epoch from clock_timestamp() - pg_catalog.min(parked.parked_at) filter (where missing.source is not null))
        as double precision)
from "{parked}" as parked
left join missing
    on parked.blocks
    and missing.source = parked.source
    and missing.aggregatetype = parked.aggregatetype
    and missing.aggregateid = parked.aggregateid
where parked.consumer = :consumer
group by parked.state, parked.reason;
