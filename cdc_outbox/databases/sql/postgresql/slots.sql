-- name: slots
-- All of them, and one row of nulls where there is none. On a standby the log ends where it has come to.
-- As JSON a slot can be asked for what came with PostgreSQL 16, 17 and 18. When its reader began tells two processes of
-- one number apart; to a role without pg_read_all_stats it is null.
with log as (
    select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn
)
select
    current_database(),
    cast(log.lsn as text),
    cast(pg_catalog.current_setting('max_replication_slots') as integer),
    slot.slot_name,
    coalesce(slot.plugin, ''),
    coalesce(slot.database, ''),
    coalesce(slot.active_pid, 0),
    coalesce(cast(extract(epoch from reader.backend_start) as text), ''),
    coalesce(reader.application_name, ''),
    coalesce(slot.wal_status, ''),
    cast(slot.confirmed_flush_lsn as text),
    cast(slot.restart_lsn as text),
    coalesce(
        pg_catalog.to_jsonb(slot) ->> text 'invalidation_reason',
        case when pg_catalog.to_jsonb(slot) ->> text 'conflicting' = 'true' then 'conflict' end,
        ''
    ),
    slot.safe_wal_size,
    slot.temporary,
    coalesce(cast(pg_catalog.to_jsonb(slot) ->> text 'two_phase' as boolean), false),
    cast(pg_catalog.to_jsonb(slot) ->> text 'failover' as boolean),
    coalesce(cast(pg_catalog.to_jsonb(slot) ->> text 'synced' as boolean), false),
    cast(
        case
            when slot.active then extract(epoch from sender.flush_lag)
            else extract(epoch from now() - cast(pg_catalog.to_jsonb(slot) ->> text 'inactive_since' as timestamptz))
        end as double precision
    )
from log
left join pg_replication_slots as slot on true
left join pg_stat_activity as reader on reader.pid = slot.active_pid
left join pg_stat_replication as sender on sender.pid = slot.active_pid
order by slot.slot_name;
