-- name: server
select
    cast(current_setting('server_version_num') as integer),
    current_setting('wal_level'),
    current_database()

-- name: role
select rolcanlogin, rolreplication or rolsuper
from pg_roles
where rolname = :role

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
select
    publication.pubinsert,
    exists (
        select from pg_publication_tables as member
        where member.pubname = publication.pubname
            and member.schemaname = :schema
            and member.tablename = :table
    )
from pg_publication as publication
where publication.pubname = :publication

-- name: slot
select plugin, database, active, coalesce(wal_status, ''), cast(confirmed_flush_lsn as text)
from pg_replication_slots
where slot_name = :slot

-- name: free_slots
select cast(current_setting('max_replication_slots') as integer) - count(*) from pg_replication_slots

-- name: written
select count(*) from (select from {outbox} limit :limit) as some_rows

-- name: ids
select cast({id} as text) from {outbox} limit :limit

-- name: peek
select change.data
from pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication
) as change
where get_byte(change.data, 0) = ascii('I')

-- name: peek_messages
select change.data
from pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication, 'messages', 'true'
) as change
where get_byte(change.data, 0) = ascii('M')

-- name: last_numbers
select aggregatetype, aggregateid, source, last from {heads} limit :limit

-- name: heads_table
select to_regclass(:heads) is not null

-- name: heads
select exists (select from {heads})

-- name: snapshot
select * from {outbox} order by {sequence} nulls first, {created_at}

-- name: create_slot
select cast(lsn as text) from pg_create_logical_replication_slot(:slot, 'pgoutput')

-- name: drop_slot
select pg_drop_replication_slot(:slot)
