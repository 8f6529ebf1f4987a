-- name: columns
select name, lower(type), null, "notnull", 0, 0, lower(type), coalesce(dflt_value, '')
from pragma_table_info('{name_literal}', '{schema_literal}')
order by cid;

-- name: indexes
select list.name, list.origin = 'pk', list."unique", 1, not list.partial, coalesce(part.name, '')
from pragma_index_list('{name_literal}', '{schema_literal}') as list
join pragma_index_info(list.name, '{schema_literal}') as part
order by list.name, part.seqno;

-- name: settings
select 'strict', cast(strict as text)
from pragma_table_list
where schema = '{schema_literal}' and name = '{name_literal}' collate nocase;

-- name: companions
-- Indexes of a table's own constraints have no statement.
select type || ' ' || name
from "{schema}".sqlite_master
where tbl_name = '{name_literal}' collate nocase and type in ('index', 'trigger') and sql is not null
order by name;

-- name: lost_heads
select
    exists (select 1 from "{outbox}" where "{source}" = :source and "{sequence}" is not null)
    and not exists (select 1 from "{heads}" where source = :source);
