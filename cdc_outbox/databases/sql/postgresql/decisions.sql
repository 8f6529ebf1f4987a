-- name: limit_locks
-- Who holds a watermark's lock may be a handler at work; behind who waits for it, the next event of the aggregate waits.
select pg_catalog.set_config('lock_timeout', '10s', true);

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
    coalesce(error, ''), cast(extract(epoch from parked_at) as double precision),
    cast(extract(epoch from tried_at) as double precision), cast(extract(epoch from retry_at) as double precision),
    topic, "partition", "offset", turn, count(*) over ()
from "{parked}"
where consumer = :consumer
    and (cast(:parked_ids as bigint[]) is null or parked_id = any(cast(:parked_ids as bigint[])))
    and (cast(:state as text) is null or state = cast(:state as text))
    and (cast(:reason as text) is null or reason = cast(:reason as text))
    and (cast(:source as text) is null or source = cast(:source as text))
    and (cast(:aggregate_type as text) is null or aggregatetype = cast(:aggregate_type as text))
    and (cast(:aggregate_id as text) is null or aggregateid = cast(:aggregate_id as text))
    and parked_id > cast(:after as bigint)
order by parked_id
limit cast(:limit as bigint);

-- name: read_messages
select parked_id, timestamp_ms, "key", value, headers
from "{parked}"
where consumer = :consumer and parked_id = any(cast(:parked_ids as bigint[]));

-- name: retry
-- What was dead begins anew, with all its attempts.
update "{parked}" as parked
set state = 'waiting', retry_at = clock_timestamp(), forced = parked.forced or wanted.forced,
    attempts = case parked.state when 'dead' then 0 else parked.attempts end
from unnest(cast(:parked_ids as bigint[]), cast(:forced as boolean[])) as wanted (parked_id, forced)
where parked.consumer = :consumer and parked.parked_id = wanted.parked_id;

-- name: note_holes
insert into "{holes}" (consumer, source, aggregatetype, aggregateid, first, last, reason, event_id, note)
select
    :consumer, hole.source, hole.aggregatetype, hole.aggregateid, hole.first, hole.last, :reason, hole.event_id,
    cast(:note as text)
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
    cast(:firsts as bigint[]), cast(:lasts as bigint[]), cast(:event_ids as text[])
) as hole (source, aggregatetype, aggregateid, first, last, event_id);

-- name: find_gaps
-- Where sequences have no gaps, what fails or waits behind it stands right after the watermark, and a gap does not.
select parked.source, parked.aggregatetype, parked.aggregateid, mark.last, pg_catalog.min(parked.sequence), count(*)
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
        cast(:sources as text[]) is null
        or (parked.source, parked.aggregatetype, parked.aggregateid) in (
            select wanted.source, wanted.aggregatetype, wanted.aggregateid
            from unnest(
                cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
            ) as wanted (source, aggregatetype, aggregateid)
        )
    )
group by parked.source, parked.aggregatetype, parked.aggregateid, mark.last
having pg_catalog.min(parked.sequence) > mark.last + 1
    and pg_catalog.min(parked.sequence) = pg_catalog.min(parked.sequence) filter (where parked.reason = 'gap')
order by parked.source, parked.aggregatetype, parked.aggregateid;

-- name: count_unreadable
select count(*) from "{parked}" where consumer = :consumer and reason = 'unreadable';
