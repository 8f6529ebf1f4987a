-- name: lag
-- `greatest` passes over null: a slot that has confirmed nothing, or has lost its WAL, would seem to be behind nothing.
-- On a standby the log ends where it has come to. Since when nobody reads a slot is known from PostgreSQL 17 on.
with log as (
    select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn
)
select
    slot.active,
    case
        when slot.confirmed_flush_lsn is not null
        then cast(greatest(pg_catalog.pg_wal_lsn_diff(log.lsn, slot.confirmed_flush_lsn), 0) as bigint)
    end,
    case
        when slot.wal_status <> 'lost'
        then cast(greatest(pg_catalog.pg_wal_lsn_diff(log.lsn, slot.restart_lsn), 0) as bigint)
    end,
    cast(slot.confirmed_flush_lsn as text),
    cast(log.lsn as text),
    cast(
        case
            when slot.active then extract(epoch from reader.flush_lag)
            else extract(epoch from now() - cast(pg_catalog.to_jsonb(slot) ->> text 'inactive_since' as timestamptz))
        end as double precision
    )
from log, pg_replication_slots slot left join pg_stat_replication reader on reader.pid = slot.active_pid
where slot.slot_name = :slot

-- name: log
select
    current_database(),
    cast(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as text)

-- name: table
select
    coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass(:table), 'select'), false),
    coalesce(pg_catalog.row_security_active(pg_catalog.to_regclass(:table)), false)

-- name: written
select count(*) from (select from {table} limit :limit) as some_rows
