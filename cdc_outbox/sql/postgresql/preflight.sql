-- name: server
select
    cast(current_setting('server_version_num') as integer),
    current_setting('wal_level'),
    current_database()

-- name: wal_end
select cast(case when pg_is_in_recovery() then pg_last_wal_replay_lsn() else pg_current_wal_lsn() end as text)

-- name: role
select
    role.rolcanlogin,
    role.rolreplication or role.rolsuper,
    coalesce(
        has_schema_privilege(role.oid, relation.relnamespace, 'usage')
        and has_table_privilege(role.oid, relation.oid, 'select'),
        false
    )
from pg_roles as role
left join pg_class as relation on relation.oid = to_regclass(:table)
where role.rolname = :role

-- name: columns
select attribute.attname, format_type(attribute.atttypid, null)
from pg_attribute as attribute
where attribute.attrelid = to_regclass(:table) and attribute.attnum > 0 and not attribute.attisdropped
order by attribute.attnum

-- name: table
select relation.relkind, relation.relpersistence
from pg_class as relation
where relation.oid = to_regclass(:table)

-- name: publication
-- Row filters and column lists came with PostgreSQL 15; as JSON the view can be asked for them in any version.
select
    publication.pubinsert,
    member.pubname is not null,
    coalesce(to_jsonb(member) ->> 'rowfilter', ''),
    to_jsonb(member) -> 'attnames'
from pg_publication as publication
left join pg_publication_tables as member
    on member.pubname = publication.pubname
    and member.schemaname = :schema
    and member.tablename = :table
where publication.pubname = :publication

-- name: slot
select plugin, database, coalesce(active_pid, 0), coalesce(wal_status, ''), cast(confirmed_flush_lsn as text)
from pg_replication_slots
where slot_name = :slot

-- name: free_slots
select cast(current_setting('max_replication_slots') as integer) - count(*) from pg_replication_slots

-- name: written
select count(*) from (select from {outbox} limit :limit) as some_rows

-- name: outside
-- Bounded by the ids that are held and the limit, however many rows there are: each row is the one or counts.
select count(*)
from (
    select
    from {outbox} as written
    where not exists (select from unnest(cast(:held as text[])) as held (id) where held.id = cast(written.{id} as text))
    limit :limit
) as some_rows

-- name: peek
declare peeked no scroll cursor for
select change.data
from pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication
) as change
where get_byte(change.data, 0) = ascii('I')

-- name: peek_messages
declare peeked no scroll cursor for
select change.data
from pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication, 'messages', 'true'
) as change
where get_byte(change.data, 0) = ascii('M')

-- name: next_changes
fetch 1000 from peeked

-- name: last_numbers
select aggregatetype, aggregateid, source, last from {heads} limit :limit

-- name: heads_table
select to_regclass(:heads) is not null

-- name: heads
select exists (select from {heads})

-- name: snapshot
select * from {outbox} {in_order}

-- name: limit_time
select set_config('statement_timeout', :milliseconds, false)

-- name: unlimit_time
reset statement_timeout

-- name: create_slot
select cast(lsn as text) from pg_create_logical_replication_slot(:slot, 'pgoutput')

-- name: drop_slot
select pg_drop_replication_slot(:slot)
