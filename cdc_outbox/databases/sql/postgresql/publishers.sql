-- name: server
-- The timeline as it is right after a promotion; pg_control_checkpoint() has it only after a checkpoint.
select
    cast((pg_control_system()).system_identifier as text),
    case when not pg_is_in_recovery() then
        pg_catalog.substr(pg_catalog.pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)
    end,
    case when not pg_is_in_recovery() then cast(pg_current_wal_flush_lsn() as text) end,
    cast(extract(epoch from pg_postmaster_start_time()) as text);

-- name: find
select publisher, slot, epoch, cast(confirmed as text), system, timeline, instance from "{publishers}";

-- name: declare
-- Changes nothing if another publisher was declared since the row was read, or if another process reads the slot: a relay
-- that was paused may come back after the slot was freed and taken by another one, or created again.
insert into "{publishers}" as known (publisher, slot, epoch, confirmed, system, timeline, instance, seen_at)
values (
    :publisher, :slot, cast(:epoch as bigint) + 1, cast(:confirmed as pg_lsn), :system, :timeline, :instance,
    clock_timestamp()
)
on conflict (single) do update
set publisher = excluded.publisher, slot = excluded.slot, epoch = excluded.epoch, confirmed = excluded.confirmed,
    system = excluded.system, timeline = excluded.timeline, instance = excluded.instance, seen_at = excluded.seen_at
where known.epoch = cast(:epoch as bigint)
    and (
        cast(:reader as integer) is null
        or exists (
            select from pg_replication_slots as held
            where held.slot_name = excluded.slot and held.active_pid = cast(:reader as integer)
        )
    )
returning epoch;

-- name: confirm
update "{publishers}" set confirmed = cast(:confirmed as pg_lsn), seen_at = clock_timestamp()
where epoch = :epoch
returning epoch;

-- name: forget
delete from "{publishers}" where epoch = :epoch;
