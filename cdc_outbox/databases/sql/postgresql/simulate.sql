-- name: columns
select
    attribute.attname,
    pg_catalog.format_type(attribute.atttypid, attribute.atttypmod),
    attribute.attnotnull,
    coalesce(pg_catalog.pg_get_expr(default_of.adbin, default_of.adrelid), '')
from pg_attribute as attribute
left join pg_attrdef as default_of
    on default_of.adrelid = attribute.attrelid
    and default_of.adnum = attribute.attnum
    and attribute.attgenerated = ''
where attribute.attrelid = cast(pg_catalog.to_regclass(:table) as oid) and attribute.attnum > 0 and not attribute.attisdropped
order by attribute.attnum

-- name: rows
-- Newest first, where ids are made in the order of time.
select {columns}
from {table}
where cast(:id as text) is null or cast({id} as text) = :id
order by {id} desc
limit :limit

-- name: text
cast({column} as text)

-- name: bytea
'\x' || pg_catalog.encode({column}, 'hex')

-- name: timestamp
pg_catalog.to_char({column}, 'YYYY-MM-DD"T"HH24:MI:SS.US')

-- name: timestamptz
pg_catalog.to_char({column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
