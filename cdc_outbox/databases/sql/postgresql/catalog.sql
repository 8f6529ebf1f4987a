-- name: database
select current_database();

-- name: table
select
    cast(relation.relkind as text),
    true,
    cast(relation.relpersistence as text),
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
    ),
    coalesce(pg_catalog.pg_get_partkeydef(relation.oid), '')
from pg_class as relation
where relation.oid = cast(pg_catalog.to_regclass('{table_literal}') as oid);

-- name: columns
-- A domain is what lies below it, be that a domain again.
with recursive typed (attnum, type) as (
    select attnum, atttypid
    from pg_attribute
    where attrelid = cast(pg_catalog.to_regclass('{table_literal}') as oid) and attnum > 0 and not attisdropped
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
    base.typtype = 'e',
    pg_catalog.format_type(attribute.atttypid, attribute.atttypmod),
    coalesce(pg_catalog.pg_get_expr(preset.adbin, preset.adrelid), '')
from pg_attribute as attribute
join typed on typed.attnum = attribute.attnum
join pg_type as base on base.oid = typed.type and base.typtype <> 'd'
left join pg_attrdef as preset on preset.adrelid = attribute.attrelid and preset.adnum = attribute.attnum
where attribute.attrelid = cast(pg_catalog.to_regclass('{table_literal}') as oid)
order by attribute.attnum;

-- name: types
-- Of columns as the stream describes them; a domain is what lies below it. A type that was dropped has no row.
with recursive typed (number, type) as (
    select given.number, given.type
    from pg_catalog.unnest(cast(:types as oid[])) with ordinality as given (type, number)
    union all
    select typed.number, domain.typbasetype
    from typed
    join pg_type as domain on domain.oid = typed.type and domain.typtype = 'd'
)
select
    given.number,
    pg_catalog.format_type(base.oid, null),
    base.typtype = 'e',
    pg_catalog.format_type(given.type, given.modifier)
from rows from (
    pg_catalog.unnest(cast(:types as oid[])), pg_catalog.unnest(cast(:modifiers as integer[]))
) with ordinality as given (type, modifier, number)
join typed on typed.number = given.number
join pg_type as base on base.oid = typed.type and base.typtype <> 'd';

-- name: indexes
select
    named.relname,
    index.indisprimary,
    index.indisunique,
    index.indisvalid,
    index.indpred is null and index.indexprs is null,
    coalesce(attribute.attname, '')
from pg_index as index
join pg_class as named on named.oid = index.indexrelid
cross join pg_catalog.unnest(index.indkey) with ordinality as key (number, position)
left join pg_attribute as attribute on attribute.attrelid = index.indrelid and attribute.attnum = key.number
where index.indrelid = cast(pg_catalog.to_regclass('{table_literal}') as oid) and key.position <= index.indnkeyatts
order by named.relname, key.position;

-- name: settings
select pg_catalog.split_part(option, '=', 1), pg_catalog.substr(option, pg_catalog.strpos(option, '=') + 1)
from pg_class as relation
cross join pg_catalog.unnest(relation.reloptions) as option
where relation.oid = cast(pg_catalog.to_regclass('{table_literal}') as oid);

-- name: partitions
select
    namespace.nspname,
    part.relname,
    coalesce(pg_catalog.pg_get_expr(part.relpartbound, part.oid), ''),
    part.relkind = 'r' and pg_catalog.pg_has_role(part.relowner, 'usage')
from pg_inherits as link
join pg_class as part on part.oid = link.inhrelid
join pg_namespace as namespace on namespace.oid = part.relnamespace
where link.inhparent = cast(pg_catalog.to_regclass('{table_literal}') as oid)
order by part.relname;

-- name: publication
-- Row filters and column lists came with PostgreSQL 15, as did publications of a schema; as JSON the view can be asked for
-- them in any version. Before 18 the view may list columns that the server computes, which are never sent.
select
    publication.pubinsert,
    member.pubname is not null,
    coalesce(pg_catalog.to_jsonb(member) ->> text 'rowfilter', ''),
    case
        when pg_catalog.to_jsonb(member) -> text 'attnames' is not null then array(
            select listed.name
            from pg_catalog.jsonb_array_elements_text(pg_catalog.to_jsonb(member) -> text 'attnames')
                with ordinality as listed (name, position)
            where cast(pg_catalog.current_setting('server_version_num') as integer) >= 180000
                or not exists (
                    select
                    from pg_attribute as attribute
                    where attribute.attrelid = cast(pg_catalog.to_regclass('{table_literal}') as oid)
                        and attribute.attname = listed.name
                        and attribute.attgenerated <> ''
                )
            order by listed.position
        )
    end,
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
    and member.schemaname = '{schema_literal}'
    and member.tablename = '{name_literal}'
where publication.pubname = :publication;

-- name: also_published
-- Tables that were put into the publication beside the outbox, outboxes first: these have heads, or the columns by which
-- Debezium's router knows one.
select cast(namespace.nspname as text), cast(relation.relname as text), known.is_outbox
from pg_publication as publication
join pg_publication_rel as member on member.prpubid = publication.oid
join pg_class as relation on relation.oid = member.prrelid
join pg_namespace as namespace on namespace.oid = relation.relnamespace
cross join lateral (
    select
        exists (
            select from pg_class as heads
            where heads.relnamespace = relation.relnamespace
                and cast(heads.relname as text) = cast(relation.relname as text) || '_heads'
        )
        or (
            select pg_catalog.count(*) = 3
            from pg_attribute as attribute
            where attribute.attrelid = relation.oid
                and attribute.attname in ('aggregatetype', 'aggregateid', 'payload')
                and not attribute.attisdropped
        ) as is_outbox
) as known
where publication.pubname = :publication
    -- What is no partition has no root.
    and coalesce(cast(pg_catalog.pg_partition_root(relation.oid) as oid), relation.oid) is distinct from coalesce(
        cast(pg_catalog.pg_partition_root(pg_catalog.to_regclass('{table_literal}')) as oid),
        cast(pg_catalog.to_regclass('{table_literal}') as oid)
    )
order by not known.is_outbox, 1, 2;

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
    pg_catalog.has_database_privilege(role.oid, current_database(), 'connect'),
    coalesce(role.rolvaliduntil < now(), false)
from pg_roles as role
where role.rolname = :role;

-- name: role_reads
-- Where there is no such table, no row of it is hidden.
select
    coalesce(
        pg_catalog.has_schema_privilege(role.oid, relation.relnamespace, 'usage')
        and pg_catalog.has_table_privilege(role.oid, relation.oid, 'select'),
        false
    ),
    coalesce(
        not relation.relrowsecurity
        or role.rolsuper
        or role.rolbypassrls
        or (pg_catalog.pg_has_role(role.oid, relation.relowner, 'usage') and not relation.relforcerowsecurity),
        true
    )
from pg_roles as role
left join pg_class as relation on relation.oid = cast(pg_catalog.to_regclass('{table_literal}') as oid)
where role.rolname = :role;

-- name: actions
select action.name
from pg_catalog.unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as action (name)
where pg_catalog.has_table_privilege(cast(:role as name), pg_catalog.to_regclass('{table_literal}'), action.name);

-- name: column_actions
select action.name, attribute.attname
from pg_attribute as attribute
cross join pg_catalog.unnest(array['select', 'insert', 'update']) as action (name)
where attribute.attrelid = cast(pg_catalog.to_regclass('{table_literal}') as oid)
    and attribute.attnum > 0
    and not attribute.attisdropped
    and pg_catalog.has_column_privilege(cast(:role as name), attribute.attrelid, attribute.attnum, action.name);

-- name: owner
select pg_catalog.pg_get_userbyid(relowner) from pg_class where oid = cast(pg_catalog.to_regclass('{table_literal}') as oid);

-- name: member
select exists (
    select
    from pg_roles as other
    where other.rolname = :other and pg_catalog.pg_has_role(cast(:role as name), other.oid, 'usage')
);

-- name: callable
-- Whether there is such a function, and whether the role may execute it; a role that does not exist is another finding.
select
    pg_catalog.to_regprocedure('{table_literal}' || '(text, interval)') is not null,
    coalesce(
        (
            select pg_catalog.has_function_privilege(
                oid, pg_catalog.to_regprocedure('{table_literal}' || '(text, interval)'), 'execute'
            )
            from pg_roles
            where rolname = :role
        ),
        true
    );

-- name: lost_heads
select
    exists (select from "{outbox}" where "{source}" operator(pg_catalog.=) :source and "{sequence}" is not null)
    and not exists (select from "{heads}" where source = :source);

-- name: access
-- Rows are hidden also where a policy shows all of them: only what bypasses policies is certain to see every row.
select
    coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass('{table_literal}'), 'select'), false),
    coalesce(pg_catalog.row_security_active(pg_catalog.to_regclass('{table_literal}')), false);

-- name: written
select count(*) from (select from "{table}" limit :limit) as some_rows;
