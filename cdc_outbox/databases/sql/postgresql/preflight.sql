-- name: server
select
    cast(pg_catalog.current_setting('server_version_num') as integer),
    pg_catalog.current_setting('wal_level')

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
    coalesce(pg_catalog.current_setting('synchronized_standby_slots', true), '') <> ''

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
limit 10

-- name: role
-- On Amazon's RDS nobody has the attribute, and members of these roles may replicate all the same.
select
    role.rolcanlogin,
    role.rolreplication
    or role.rolsuper
    or exists (
        select
        from pg_roles as granted
        where granted.rolname in ('rds_replication', 'rds_superuser')
            and pg_catalog.pg_has_role(role.oid, granted.oid, 'usage')
    ),
    coalesce(
        pg_catalog.has_schema_privilege(role.oid, relation.relnamespace, 'usage')
        and pg_catalog.has_table_privilege(role.oid, relation.oid, 'select'),
        false
    ),
    pg_catalog.has_database_privilege(role.oid, current_database(), 'connect'),
    coalesce(
        not relation.relrowsecurity
        or role.rolsuper
        or role.rolbypassrls
        or (pg_catalog.pg_has_role(role.oid, relation.relowner, 'usage') and not relation.relforcerowsecurity),
        true
    ),
    coalesce(role.rolvaliduntil < now(), false)
from pg_roles as role
left join pg_class as relation on relation.oid = cast(pg_catalog.to_regclass(:table) as oid)
where role.rolname = :role

-- name: heartbeat
select
    pg_catalog.to_regprocedure(:function) is not null,
    coalesce(
        (
            select pg_catalog.has_function_privilege(oid, pg_catalog.to_regprocedure(:function), 'execute')
            from pg_roles
            where rolname = :role
        ),
        true
    )

-- name: columns
-- A domain is what lies below it, be that a domain again.
with recursive typed (attnum, type) as (
    select attnum, atttypid
    from pg_attribute
    where attrelid = cast(pg_catalog.to_regclass(:table) as oid) and attnum > 0 and not attisdropped
    union all
    select typed.attnum, domain.typbasetype
    from typed
    join pg_type as domain on domain.oid = typed.type and domain.typtype = 'd'
)
select
    attribute.attname,
    pg_catalog.format_type(base.oid, null),
    case
        when attribute.atttypid = cast(cast('varchar' as regtype) as oid) and attribute.atttypmod > 4
        then attribute.atttypmod - 4
    end,
    attribute.attnotnull,
    attribute.attgenerated <> '',
    base.typtype = 'e'
from pg_attribute as attribute
join typed on typed.attnum = attribute.attnum
join pg_type as base on base.oid = typed.type and base.typtype <> 'd'
where attribute.attrelid = cast(pg_catalog.to_regclass(:table) as oid)
order by attribute.attnum

-- name: table
select
    relation.relkind,
    relation.relpersistence,
    coalesce(
        (
            select cast(cast(link.inhparent as regclass) as text)
            from pg_inherits as link
            where link.inhrelid = relation.oid and relation.relispartition
        ),
        ''
    ),
    case
        when relation.relkind = 'r' then
            array(select cast(cast(inhrelid as regclass) as text) from pg_inherits where inhparent = relation.oid order by 1)
        else cast(array[] as text[])
    end,
    relation.relkind = 'r'
    and case relation.relreplident
        when 'n' then true
        when 'd' then not exists (select from pg_index where indrelid = relation.oid and indisprimary)
        when 'i' then not exists (select from pg_index where indrelid = relation.oid and indisreplident)
        else false
    end
    and exists (
        select
        from pg_publication_tables as member
        join pg_publication as publication on publication.pubname = member.pubname
        join pg_namespace as namespace on namespace.nspname = member.schemaname
        where publication.pubdelete
            and namespace.oid = relation.relnamespace
            and member.tablename = relation.relname
    ),
    array(
        select cast(pg_catalog.quote_ident(rule.rulename) as text)
        from pg_rewrite as rule
        where rule.ev_class = relation.oid and rule.ev_type = '3' and rule.is_instead and rule.ev_enabled in ('O', 'A')
        order by 1
    ),
    array(
        select cast(pg_catalog.quote_ident(hook.tgname) as text)
        from pg_trigger as hook
        join pg_proc as function on function.oid = hook.tgfoid
        join pg_language as language on language.oid = function.prolang
        where hook.tgrelid = relation.oid
            and not hook.tgisinternal
            and hook.tgenabled in ('O', 'A') -- not for replicas alone
            and cast(hook.tgtype as integer) & 7 = 7 -- for each row, before, insert
            and language.lanname = 'plpgsql'
            and function.prosrc ~* '\mreturn\s+null\M'
        order by 1
    )
from pg_class as relation
where relation.oid = cast(pg_catalog.to_regclass(:table) as oid)

-- name: keys
select array(
    select cast(attribute.attname as text)
    from pg_catalog.unnest(index.indkey) with ordinality as key (number, position)
    join pg_attribute as attribute on attribute.attrelid = index.indrelid and attribute.attnum = key.number
    where key.position <= index.indnkeyatts
    order by key.position
)
from pg_index as index
where index.indrelid = cast(pg_catalog.to_regclass(:table) as oid)
    and index.indisunique
    and index.indisvalid
    and index.indpred is null
    and index.indexprs is null

-- name: publication
-- Row filters and column lists came with PostgreSQL 15, as did publications of a schema; as JSON the view can be asked for
-- them in any version. Before 18 the view may list columns that the server computes, which are never sent.
select
    publication.pubinsert,
    member.pubname is not null,
    coalesce(pg_catalog.to_jsonb(member) ->> text 'rowfilter', ''),
    (
        select pg_catalog.jsonb_agg(listed.name order by listed.position)
        from pg_catalog.jsonb_array_elements_text(pg_catalog.to_jsonb(member) -> text 'attnames')
            with ordinality as listed (name, position)
        where cast(pg_catalog.current_setting('server_version_num') as integer) >= 180000
            or not exists (
                select
                from pg_attribute as attribute
                where attribute.attrelid = cast(pg_catalog.to_regclass(:outbox) as oid)
                    and attribute.attname = listed.name
                    and attribute.attgenerated <> ''
            )
    ),
    case
        when publication.puballtables then 'all tables'
        when member.pubname is not null
            and not exists (select from pg_publication_rel where prpubid = publication.oid)
            then 'all tables of a schema'
        else ''
    end,
    pg_catalog.array_remove(
        array[
            case when publication.pubupdate then 'updates' end,
            case when publication.pubdelete then 'deletes' end,
            case when publication.pubtruncate then 'truncates' end
        ],
        null
    )
from pg_publication as publication
left join pg_publication_tables as member
    on member.pubname = publication.pubname
    and member.schemaname = :schema
    and member.tablename = :table
where publication.pubname = :publication

-- name: written
select count(*) from (select from {outbox} limit :limit) as some_rows

-- name: outside
-- Bounded by the ids that are held and the limit, however many rows there are: each row is the one or counts.
select count(*)
from (
    select
    from {outbox} as written
    where not exists (select from pg_catalog.unnest(cast(:held as text[])) as held (id) where held.id = cast(written.{id} as text))
    limit :limit
) as some_rows

-- name: older
select count(*)
from (
    select
    from {outbox}
    where cast({aggregate_type} as text) = any(cast(:aggregate_types as text[]))
        and {created_at} < (clock_timestamp() at time zone 'UTC') - pg_catalog.make_interval(days => :days)
    limit :limit
) as some_rows

-- name: peek
declare peeked no scroll cursor for
select change.data
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication
) as change
where pg_catalog.get_byte(change.data, 0) = pg_catalog.ascii('I')

-- name: peek_messages
declare peeked no scroll cursor for
select change.data
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication, 'messages', 'true'
) as change
where pg_catalog.get_byte(change.data, 0) = pg_catalog.ascii('M')

-- name: peek_transactions
declare peeked no scroll cursor for
select change.lsn - '0/0', change.data
from pg_catalog.pg_logical_slot_peek_binary_changes(
    :slot, null, :limit, 'proto_version', '1', 'publication_names', :publication, 'messages', 'true'
) as change
where pg_catalog.get_byte(change.data, 0) in (pg_catalog.ascii('B'), pg_catalog.ascii('I'), pg_catalog.ascii('M'))

-- name: next_changes
fetch 1000 from peeked

-- name: last_numbers
select aggregatetype, aggregateid, source, last from {heads} limit :limit

-- name: heads_table
select pg_catalog.to_regclass(:heads) is not null

-- name: heads
select exists (select from {heads})

-- name: snapshot
select * from {outbox} {in_order}

-- name: read_only
set session characteristics as transaction read only

-- name: limit_time
select pg_catalog.set_config('statement_timeout', :milliseconds, false)

-- name: unlimit_time
reset statement_timeout

-- name: create_slot
select cast(lsn as text) from pg_catalog.pg_create_logical_replication_slot(:slot, 'pgoutput')

-- name: drop_slot
select pg_catalog.pg_drop_replication_slot(:slot)
