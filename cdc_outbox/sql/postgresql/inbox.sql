-- name: claim
insert into {inbox} (consumer, event_id)
select :consumer, wanted.event_id
from unnest(cast(:event_ids as text[])) as wanted (event_id)
order by wanted.event_id
on conflict (consumer, event_id) do nothing
returning event_id, cast(pg_current_xact_id() as text)

-- name: take_back
delete from {inbox}
where consumer = :consumer
    and event_id = any(cast(:event_ids as text[]))
    and xmin = cast(cast(:transaction as xid8) as xid)
returning event_id

-- name: find_watermarks
-- Each is looked up in the index: before the first analyze, a plain join would read all that the consumer remembers.
select wanted.source, wanted.aggregatetype, wanted.aggregateid, mark.last
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
) as wanted (source, aggregatetype, aggregateid)
cross join lateral (
    select found.last
    from {watermarks} as found
    where found.consumer = :consumer
        and found.source = wanted.source
        and found.aggregatetype = wanted.aggregatetype
        and found.aggregateid = wanted.aggregateid
    limit 1
) as mark

-- name: advance_watermarks
with moved as (
    select *
    from unnest(
        cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
        cast(:befores as bigint[]), cast(:afters as bigint[])
    ) as moved (source, aggregatetype, aggregateid, before, after)
),
started as (
    insert into {watermarks} (consumer, source, aggregatetype, aggregateid, last)
    select :consumer, moved.source, moved.aggregatetype, moved.aggregateid, moved.after
    from moved
    where moved.before = 0
    order by moved.source, moved.aggregatetype, moved.aggregateid
    on conflict (consumer, source, aggregatetype, aggregateid) do nothing
    returning last
),
found as materialized (
    select
        (
            select mark.ctid
            from {watermarks} as mark
            where mark.consumer = :consumer
                and mark.source = moved.source
                and mark.aggregatetype = moved.aggregatetype
                and mark.aggregateid = moved.aggregateid
        ) as place,
        moved.before,
        moved.after
    from moved
    where moved.before > 0
),
advanced as (
    update {watermarks} as mark
    set last = found.after, updated_at = clock_timestamp()
    from found
    where mark.ctid = found.place and mark.last = found.before
    returning mark.last
)
select
    (select count(*) from started) + (select count(*) from advanced),
    cast(pg_current_xact_id_if_assigned() as text)
