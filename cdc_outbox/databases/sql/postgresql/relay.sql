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
