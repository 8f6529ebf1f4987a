-- name: look
-- The snapshot is taken before the position is read, and a transaction writes its commit before a snapshot sees it:
-- whatever is older than the snapshot's oldest transaction lies before the position.
select
    cast(pg_current_wal_insert_lsn() as text),
    cast(cast(pg_catalog.pg_snapshot_xmin(pg_current_snapshot()) as text) as bigint),
    clock_timestamp();

-- name: record
insert into "{checkpoints}" (slot, reader, position, oldest, taken_at, ends, compared)
values (:slot, :reader, cast(:position as pg_lsn), :oldest, :taken_at, cast(:ends as jsonb), :compared);

-- name: checkpoints
-- A row knows only half of its transaction's number: a checkpoint of two thousand million transactions ago would be ahead.
select cast(position as text), oldest, reader, taken_at, cast(ends as text), compared
from "{checkpoints}"
where slot = :slot
    and system = cast((pg_control_system()).system_identifier as text)
    and cast(cast(pg_catalog.pg_snapshot_xmax(pg_current_snapshot()) as text) as bigint) - oldest between 0 and 1000000000
order by number;

-- name: forget
delete from "{checkpoints}"
where slot = :slot
    and (
        position < cast(:position as pg_lsn)
        or not compared and reader <> :reader
        or system <> cast((pg_control_system()).system_identifier as text)
    );

-- name: running
select pg_catalog.concat('transaction ', backend_xid, ' (process ', pid, ', database ', datname, ')'), xact_start
from pg_stat_activity
where backend_xid = cast(cast(cast(:oldest as text) as xid8) as xid)
union all
select pg_catalog.concat('the prepared transaction ', gid, ' (database ', database, ')'), prepared
from pg_prepared_xacts
where transaction = cast(cast(cast(:oldest as text) as xid8) as xid);

-- name: count
select
    count(*) filter (where proven and not young),
    count(*) filter (where proven and young),
    count(*) filter (where not proven)
from (
    select
        pg_catalog.age(written.xmin) > pg_catalog.age(cast(cast(cast(:oldest as text) as xid8) as xid)) as proven,
        coalesce(written."{created_at}" >= cast(:before as timestamp), false) as young
    from "{outbox}" as written
) as looked_at;

-- name: first_seen
select written."{id}", cast(written."{id}" as text) as known_as, cast("{aggregate_type}" as text), cast("{aggregate_id}" as text), "{source}", "{sequence}"
from "{outbox}" as written
where pg_catalog.age(written.xmin) > pg_catalog.age(cast(cast(cast(:oldest as text) as xid8) as xid))
    and (
        cast(:since as text) is null
        or pg_catalog.age(written.xmin) <= pg_catalog.age(cast(cast(cast(:since as text) as xid8) as xid))
    )
order by written."{id}" using operator(pg_catalog.<)
limit :rows;

-- name: next_seen
select written."{id}", cast(written."{id}" as text) as known_as, cast("{aggregate_type}" as text), cast("{aggregate_id}" as text), "{source}", "{sequence}"
from "{outbox}" as written
where written."{id}" operator(pg_catalog.>) :after
    and pg_catalog.age(written.xmin) > pg_catalog.age(cast(cast(cast(:oldest as text) as xid8) as xid))
    and (
        cast(:since as text) is null
        or pg_catalog.age(written.xmin) <= pg_catalog.age(cast(cast(cast(:since as text) as xid8) as xid))
    )
order by written."{id}" using operator(pg_catalog.<)
limit :rows;

-- name: older_than_publication
-- What was written before the publication, or the table's membership, became what it is may never have been sent.
select count(*)
from "{outbox}" as written
where pg_catalog.age(written.xmin) > pg_catalog.age(cast(cast(cast(:oldest as text) as xid8) as xid))
    and exists (
        select
        from pg_publication as publication
        left join pg_publication_rel as member
            on member.prpubid = publication.oid
            and member.prrelid = cast(pg_catalog.to_regclass(:table) as oid)
        where publication.pubname = :publication
            and (
                pg_catalog.age(written.xmin) > pg_catalog.age(publication.xmin)
                or pg_catalog.age(written.xmin) > pg_catalog.age(member.xmin)
            )
    );

-- name: first
select cast("{id}" as text) from "{outbox}" order by "{id}" using operator(pg_catalog.<) limit 1;

-- name: lock
select pg_catalog.pg_advisory_xact_lock(
    pg_catalog.hashtextextended(pg_catalog.concat('cdc-outbox prune ', cast(:table as text)), 0)
);

-- name: delete_batch
-- Row by row by its own transaction's number, which an open transaction's savepoint has too: a snapshot's list of open
-- transactions leaves those out. A row that was frozen long ago may count as not
-- proven; it stays.
with looked_at as materialized (
    select
        written."{id}" as id,
        pg_catalog.age(written.xmin) > pg_catalog.age(cast(cast(cast(:oldest as text) as xid8) as xid)) as proven,
        coalesce(written."{created_at}" >= cast(:before as timestamp), false) as young,
        row_number() over (order by written."{id}" using operator(pg_catalog.<)) as place
    from "{outbox}" as written
    where written."{id}" operator(pg_catalog.>=) :first
    order by written."{id}" using operator(pg_catalog.<)
    -- One more, to go on from.
    limit cast(:batch_rows as integer) + 1
),
gone as (
    delete from "{outbox}" as written
    using looked_at
    where written."{id}" operator(pg_catalog.=) looked_at.id
        and looked_at.proven
        and not looked_at.young
        and looked_at.place <= :batch_rows
    returning written.*
-- if archive
), kept as (
    insert into "{archive}" ("{archived_columns}") select "{archived_columns}" from gone
-- end
)
select
    (select count(*) from gone),
    count(*) filter (where proven and young and place <= :batch_rows),
    count(*) filter (where not proven and place <= :batch_rows),
    pg_catalog.max(cast(id as text)) filter (where place > :batch_rows)
from looked_at;

-- name: limit_locks
-- Rows that a policy hides would go with their partition, uncounted.
select
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('row_security', 'off', true),
    pg_catalog.set_config('lock_timeout', '500ms', true);

-- name: lock_partition
lock table "{outbox}" in share mode;

-- name: archive_partition
insert into "{archive}" ("{archived_columns}") select "{archived_columns}" from "{outbox}";

-- name: drop_partition
drop table "{outbox}";

-- name: create_archive
-- No key and no index: an id that was pruned may be written again.
create table if not exists "{archive}" (like "{outbox}");
