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
select mark.source, mark.aggregatetype, mark.aggregateid, mark.last
from {watermarks} as mark
join unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
) as wanted (source, aggregatetype, aggregateid)
    on wanted.source = mark.source
    and wanted.aggregatetype = mark.aggregatetype
    and wanted.aggregateid = mark.aggregateid
where mark.consumer = :consumer

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
advanced as (
    update {watermarks} as mark
    set last = moved.after, updated_at = clock_timestamp()
    from moved
    where mark.consumer = :consumer
        and mark.source = moved.source
        and mark.aggregatetype = moved.aggregatetype
        and mark.aggregateid = moved.aggregateid
        and mark.last = moved.before
    returning mark.last
)
select
    (select count(*) from started) + (select count(*) from advanced),
    cast(pg_current_xact_id_if_assigned() as text)
