-- name: claim
with claimed as (
    insert into "{inbox}" (consumer, event_id)
    select :consumer, wanted.event_id
    from pg_catalog.unnest(cast(:event_ids as text[])) as wanted (event_id)
    order by wanted.event_id
    on conflict (consumer, event_id) do nothing
    returning event_id
)
select
    count(*),
    cast(pg_current_xact_id() as text),
    case
        when count(*) < pg_catalog.cardinality(cast(:event_ids as text[]))
        then cast(pg_catalog.json_agg(event_id) as text)
    end
from claimed;

-- name: claim_next
-- Claims all ids if every watermark is as far as the events continue it and nothing is parked behind it, else none.
-- As a rule no id of such events was claimed before. So the insertion does not look for conflicts, which would cost as
-- much again as the rows; an id that was claimed makes the statement fail. Watermarks and epochs are read at the
-- statement's start, before a claim that waits for another transaction; `advance` and `store_offsets` detect what that
-- one changed. The last purge must be read after the claims: see `look`.
with remembered as materialized (
    select
        coalesce(
            pg_catalog.bool_and(
                coalesce(mark.last, 0) between wanted.lowest and wanted.highest and coalesce(mark.parked, 0) = 0
            ),
            true
        ) as are_next,
        cast(pg_catalog.to_json(pg_catalog.array_agg(coalesce(mark.last, 0) order by wanted.place)) as text) as lasts,
        cast(
            pg_catalog.to_json(pg_catalog.array_agg(coalesce(cast(mark.ctid as text), '') order by wanted.place)) as text
        ) as tids
    from unnest(
        cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
        cast(:lowest as bigint[]), cast(:highest as bigint[])
    ) with ordinality as wanted (source, aggregatetype, aggregateid, lowest, highest, place)
    left join lateral (
        select found.ctid, found.last, found.parked
        from "{watermarks}" as found
        where found.consumer = :consumer
            and found.source = wanted.source
            and found.aggregatetype = wanted.aggregatetype
            and found.aggregateid = wanted.aggregateid
        limit 1
    ) as mark on true
),
claimed as (
    insert into "{inbox}" (consumer, event_id)
    select :consumer, wanted.event_id
    from pg_catalog.unnest(cast(:event_ids as text[])) as wanted (event_id)
    where (select are_next from remembered)
    order by wanted.event_id
    returning 1
)
select
    (select count(*) from claimed),
    cast(pg_current_xact_id() as text),
    pg_catalog.current_setting('transaction_isolation') = 'read committed',
    exists (
        select
        from unnest(
            cast(:topics as text[]), cast(:partitions as integer[]), cast(:epochs as bigint[])
        ) as wanted (topic, "partition", epoch)
        left join "{epochs}" as held
            on held.consumer = :consumer and held.topic = wanted.topic and held."partition" = wanted."partition"
        where held.epoch is distinct from wanted.epoch
    ),
    remembered.lasts,
    remembered.tids
from remembered;

-- name: find_claims
select event_id from "{inbox}" where consumer = :consumer and event_id = any(cast(:event_ids as text[]));

-- name: identify
select cast(pg_current_xact_id() as text);

-- name: release
delete from "{inbox}" where consumer = :consumer and event_id = any(cast(:event_ids as text[]));

-- name: take_back
delete from "{inbox}"
where consumer = :consumer
    and event_id = any(cast(:event_ids as text[]))
    and xmin = cast(cast(cast(:transaction as text) as xid8) as xid)
returning event_id;

-- name: look
-- After the claims: from then on nobody can forget ids before this transaction's end.
select
    (
        select cast(extract(epoch from pg_catalog.max(purged_before)) as double precision)
        from "{purges}"
        where consumer = :consumer
    ),
    pg_catalog.current_setting('transaction_isolation') = 'read committed';

-- name: find_watermarks
-- Each is looked up in the index: before the first analyze, a plain join would read all that the consumer remembers.
select wanted.place, mark.last, mark.parked
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
) with ordinality as wanted (source, aggregatetype, aggregateid, place)
cross join lateral (
    select found.last, found.parked
    from "{watermarks}" as found
    where found.consumer = :consumer
        and found.source = wanted.source
        and found.aggregatetype = wanted.aggregatetype
        and found.aggregateid = wanted.aggregateid
    limit 1
) as mark;

-- name: lock_watermarks
insert into "{watermarks}" as mark (consumer, source, aggregatetype, aggregateid, last)
select :consumer, wanted.source, wanted.aggregatetype, wanted.aggregateid, 0
from unnest(
    cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[])
) as wanted (source, aggregatetype, aggregateid)
order by wanted.source, wanted.aggregatetype, wanted.aggregateid
on conflict (consumer, source, aggregatetype, aggregateid) do update set updated_at = clock_timestamp()
returning mark.source, mark.aggregatetype, mark.aggregateid, mark.last, mark.parked;

-- name: advance
-- A tid is where the row was when it was read; where that is not known, the row is looked up by its key.
with moved as (
    select *
    from unnest(
        cast(:sources as text[]), cast(:aggregate_types as text[]), cast(:aggregate_ids as text[]),
        cast(:befores as bigint[]), cast(:afters as bigint[]), cast(:parked as bigint[]), cast(:tids as text[])
    ) as moved (source, aggregatetype, aggregateid, before, after, parked, tid)
),
started as (
    insert into "{watermarks}" as mark (consumer, source, aggregatetype, aggregateid, last, parked)
    select :consumer, moved.source, moved.aggregatetype, moved.aggregateid, moved.after, moved.parked
    from moved
    where moved.before = 0
    order by moved.source, moved.aggregatetype, moved.aggregateid
    on conflict (consumer, source, aggregatetype, aggregateid) do update
    set last = excluded.last, parked = mark.parked + excluded.parked, updated_at = clock_timestamp()
    where mark.last = 0
    returning mark.source, mark.aggregatetype, mark.aggregateid, mark.parked
),
found as materialized (
    select
        case
            when moved.tid = '' then (
                select mark.ctid
                from "{watermarks}" as mark
                where mark.consumer = :consumer
                    and mark.source = moved.source
                    and mark.aggregatetype = moved.aggregatetype
                    and mark.aggregateid = moved.aggregateid
            )
            else cast(moved.tid as tid)
        end as tid,
        moved.source,
        moved.aggregatetype,
        moved.aggregateid,
        moved.before,
        moved.after,
        moved.parked
    from moved
    where moved.before > 0
),
advanced as (
    update "{watermarks}" as mark
    set last = found.after, parked = mark.parked + found.parked, updated_at = clock_timestamp()
    from found
    where mark.ctid = found.tid
        -- As they are not compared by "=", the planner does not take the index of the key instead.
        and mark.consumer is not distinct from :consumer
        and mark.source is not distinct from found.source
        and mark.aggregatetype is not distinct from found.aggregatetype
        and mark.aggregateid is not distinct from found.aggregateid
        and mark.last = found.before
    returning mark.source, mark.aggregatetype, mark.aggregateid, mark.parked
),
done as (
    select * from started
    union all
    select * from advanced
)
select
    count(*),
    cast(pg_current_xact_id_if_assigned() as text),
    cast(
        pg_catalog.json_agg(pg_catalog.json_build_array(source, aggregatetype, aggregateid)) filter (where parked > 0)
        as text
    )
from done;
