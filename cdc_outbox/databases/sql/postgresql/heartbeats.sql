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
select coalesce(
    pg_catalog.bool_or(cast(:id as text) in (cast(id as text), cast(previous as text))) or pg_catalog.min(number) > cast(:number as bigint),
    false
)
from "{heartbeats}";

-- name: write
select "{heartbeat}"(cast(:pipeline as text), interval '0');
