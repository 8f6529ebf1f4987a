-- name: lag
-- On a standby the log ends where it has come to.
with log as (
    select case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as lsn
)
select
    active,
    cast(greatest(pg_wal_lsn_diff(log.lsn, confirmed_flush_lsn), 0) as bigint),
    cast(greatest(pg_wal_lsn_diff(log.lsn, restart_lsn), 0) as bigint)
from pg_replication_slots, log
where slot_name = :slot
