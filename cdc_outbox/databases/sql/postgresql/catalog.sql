-- name: database
select current_database()

-- name: columns
select
    attribute.attname,
    pg_catalog.format_type(attribute.atttypid, attribute.atttypmod),
    attribute.attnotnull,
    coalesce(pg_catalog.pg_get_expr(preset.adbin, preset.adrelid), '')
from pg_attribute as attribute
left join pg_attrdef as preset on preset.adrelid = attribute.attrelid and preset.adnum = attribute.attnum
where attribute.attrelid = cast(pg_catalog.to_regclass({table_literal}) as oid)
    and attribute.attnum > 0
    and not attribute.attisdropped
order by attribute.attnum

-- name: indexes
select named.relname, index.indisprimary, index.indisunique, index.indisvalid, coalesce(attribute.attname, '')
from pg_index as index
join pg_class as named on named.oid = index.indexrelid
cross join pg_catalog.unnest(index.indkey) with ordinality as key (number, position)
left join pg_attribute as attribute on attribute.attrelid = index.indrelid and attribute.attnum = key.number
where index.indrelid = cast(pg_catalog.to_regclass({table_literal}) as oid)
order by named.relname, key.position

-- name: settings
select pg_catalog.split_part(option, '=', 1), pg_catalog.substr(option, pg_catalog.strpos(option, '=') + 1)
from pg_class as relation
cross join pg_catalog.unnest(relation.reloptions) as option
where relation.oid = cast(pg_catalog.to_regclass({table_literal}) as oid)

-- name: partition_key
select pg_catalog.pg_get_partkeydef(oid)
from pg_class
where oid = cast(pg_catalog.to_regclass({table_literal}) as oid) and relkind = 'p'

-- name: partitions
select child.relname, pg_catalog.pg_get_expr(child.relpartbound, child.oid)
from pg_inherits as link
join pg_class as child on child.oid = link.inhrelid
where link.inhparent = cast(pg_catalog.to_regclass({table_literal}) as oid)
order by child.relname

-- name: publishes
select pubupdate, pubdelete, pubtruncate from pg_publication where pubname = :publication

-- name: role
select rolname from pg_roles where rolname = :role

-- name: actions
select action.name
from pg_catalog.unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as action (name)
where pg_catalog.has_table_privilege(cast(:role as name), pg_catalog.to_regclass({table_literal}), action.name)

-- name: column_actions
select action.name, attribute.attname
from pg_attribute as attribute
cross join pg_catalog.unnest(array['select', 'insert', 'update']) as action (name)
where attribute.attrelid = cast(pg_catalog.to_regclass({table_literal}) as oid)
    and attribute.attnum > 0
    and not attribute.attisdropped
    and pg_catalog.has_column_privilege(cast(:role as name), attribute.attrelid, attribute.attnum, action.name)

-- name: owner
select pg_catalog.pg_get_userbyid(relowner) from pg_class where oid = cast(pg_catalog.to_regclass({table_literal}) as oid)

-- name: publication
select
    exists (select from pg_publication where pubname = :publication),
    exists (
        select from pg_publication_tables
        where pubname = :publication and schemaname = {schema_literal} and tablename = {name_literal}
    )

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
        cast(pg_catalog.pg_partition_root(pg_catalog.to_regclass(:outbox)) as oid),
        cast(pg_catalog.to_regclass(:outbox) as oid)
    )
order by not known.is_outbox, 1, 2

-- name: member
select exists (
    select
    from pg_roles as other
    where other.rolname = :other and pg_catalog.pg_has_role(cast(:role as name), other.oid, 'usage')
)

-- name: callable
select coalesce(
    pg_catalog.has_function_privilege(
        cast(:role as name), pg_catalog.to_regprocedure({table_literal} || '(text, interval)'), 'execute'
    ),
    false
)

-- name: lost_heads
select
    exists (select from {outbox} where {source} operator(pg_catalog.=) :source and {sequence} is not null)
    and not exists (select from {heads} where source = :source)

-- name: hides_rows
-- Also where a policy shows all of them: only what bypasses policies is certain to see every row.
select coalesce(pg_catalog.row_security_active(pg_catalog.to_regclass({table_literal})), false)
