-- name: server
select
    cast(pg_catalog.current_setting('server_version_num') as integer),
    pg_catalog.current_setting('wal_level');

-- name: server_state
-- What a version does not know is null.
select
    pg_is_in_recovery(),
    cast(pg_catalog.current_setting('max_wal_senders') as integer) - (select count(*) from pg_stat_replication),
    (select pg_catalog.pg_encoding_to_char(encoding) from pg_database where datname = current_database()),
    -- Not told to everybody.
    case
        when pg_catalog.pg_has_role('pg_read_all_settings', 'usage')
        then pg_catalog.current_setting('output_plugin_libraries', true)
    end,
    cast(extract(epoch from cast(pg_catalog.current_setting('idle_replication_slot_timeout', true) as interval)) as float),
    cast(extract(epoch from cast(pg_catalog.current_setting('wal_sender_timeout') as interval)) as float),
    pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_wal_size')),
    nullif(pg_catalog.pg_size_bytes(pg_catalog.current_setting('max_slot_wal_keep_size')), -1),
    coalesce(pg_catalog.current_setting('synchronized_standby_slots', true), '') <> '';

-- name: open_for_long
-- Transactions that wrote, of any database of the server. Of others' sessions only who may read all statistics is told.
select name, since, is_prepared
from (
    select pg_catalog.concat('process ', pid) as name, xact_start as since, false as is_prepared
    from pg_stat_activity
    where backend_xid is not null and xact_start < clock_timestamp() - pg_catalog.make_interval(secs => :seconds)
    union all
    select gid, prepared, true from pg_prepared_xacts
) as open_transactions
order by since
limit 10;

-- name: outside
-- Bounded by the ids that are held and the limit, however many rows there are: each row is the one or counts.
select count(*)
from (
    select
    from "{outbox}" as written
    where not exists (select from pg_catalog.unnest(cast(:held as text[])) as held (id) where held.id = cast(written."{id}" as text))
    limit :limit
) as some_rows;

-- name: older
select count(*)
from (
    select
    from "{outbox}"
    where cast("{aggregate_type}" as text) = any(cast(:aggregate_types as text[]))
        and "{created_at}" < (clock_timestamp() at time zone 'UTC') - pg_catalog.make_interval(days => :days)
    limit :limit
) as some_rows;

-- name: peek
declare peeked no scroll cursor for
select change.data
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication
) as change
where pg_catalog.get_byte(change.data, 0) = pg_catalog.ascii('I');

-- name: peek_messages
declare peeked no scroll cursor for
select change.data
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication, 'messages', 'true'
) as change
where pg_catalog.get_byte(change.data, 0) = pg_catalog.ascii('M');

-- name: peek_transactions
declare peeked no scroll cursor for
select change.lsn - '0/0', change.data
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication, 'messages', 'true'
) as change
where pg_catalog.get_byte(change.data, 0) in (pg_catalog.ascii('B'), pg_catalog.ascii('I'), pg_catalog.ascii('M'));

-- name: may_read_slot
-- No more than the first record of the log.
select count(*)
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, '0/1', null, 'proto_version', '1', 'publication_names', :publication
);

-- name: next_changes
fetch 1000 from peeked;

-- name: last_numbers
select aggregatetype, aggregateid, source, last from "{heads}" limit :limit;

-- name: heads
select exists (select from "{heads}");

-- name: snapshot
select * from "{outbox}"
-- if in_order
order by "{in_order}"
-- end
;

-- name: read_only
set session characteristics as transaction read only;

-- name: limit_time
select pg_catalog.set_config('statement_timeout', :milliseconds, false);

-- name: unlimit_time
reset statement_timeout;

-- name: create_slot
select cast(lsn as text) from pg_catalog.pg_create_logical_replication_slot(:slot, 'pgoutput');

-- name: create_failover_slot
-- Since PostgreSQL 17: standbys keep a copy.
select cast(lsn as text) from pg_catalog.pg_create_logical_replication_slot(:slot, 'pgoutput', failover => true);

-- name: number
select cast(pg_current_xact_id() as text);

-- name: older_ended
-- What the snapshot lists as running is not enough: a transaction may be newer than the snapshot, and older than a number.
select pg_catalog.pg_snapshot_xmin(pg_current_snapshot()) > cast(:number as xid8);

-- name: take_turn
select pg_catalog.pg_advisory_lock(pg_catalog.hashtextextended(:slot, 0));

-- name: drop_slot
select pg_catalog.pg_drop_replication_slot(:slot);
