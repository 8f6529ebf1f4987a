-- name: read
-- A position in another server's log, as in a dump, says nothing about this one.
select
    number,
    cast(id as text),
    cast(previous as text),
    written_at,
    case when system = (select cast(system_identifier as text) from pg_control_system()) then cast(lsn as text) end,
    clock_timestamp()
from "{heartbeats}"
order by number;

-- name: knows
-- Whether a heartbeat was written here. Only those of a day are kept; an older one is assumed to be among them.
-- And whether another session has written one that is not visible: the log has what waits for a synchronous standby.
select
    coalesce(
        pg_catalog.bool_or(cast(:id as text) in (cast(id as text), cast(previous as text))) or pg_catalog.min(number) > cast(:number as bigint),
        false
    ),
    exists (
        select from pg_locks
        where pg_locks.relation = cast(pg_catalog.to_regclass('{heartbeats_literal}') as oid)
            and pg_locks.database = (select oid from pg_database where datname = current_database())
            and pg_locks.mode = 'RowExclusiveLock' and pg_locks.pid <> pg_backend_pid()
    )
from "{heartbeats}";

-- name: write
select "{heartbeat}"(cast(:pipeline as text), interval '0');
