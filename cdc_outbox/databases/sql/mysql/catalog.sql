-- MariaDB and MySQL spell some of this differently; here both come out the same: integers without a display width, the
-- collation with the type, and a constant with nothing but its quotes doubled. No percent sign: a driver would see a
-- parameter in it.

-- name: database
select database();

-- name: columns
select
    column_name,
    lower(data_type),
    character_maximum_length,
    is_nullable = 'NO',
    coalesce(generation_expression, '') <> '',
    data_type = 'enum',
    concat(
        if(right(data_type, 3) = 'int', regexp_replace(column_type, '[(][0-9]+[)]', ''), column_type),
        if(collation_name is null, '', concat(' collate ', collation_name))
    ),
    case
        when column_default is null then ''
        when locate('MariaDB', version()) and column_default = 'NULL' then ''
        when locate('MariaDB', version()) then replace(column_default, repeat(char(92), 2), char(92))
        when locate('DEFAULT_GENERATED', extra) then column_default
        -- MySQL shows a constant of bytes in digits, and no constant in quotes.
        when data_type = 'varbinary' and left(column_default, 2) = '0x' then
            concat('''', replace(convert(unhex(substr(column_default, 3)) using utf8mb4), '''', ''''''), '''')
        else concat('''', replace(column_default, '''', ''''''), '''')
    end,
    coalesce(character_set_name, '')
from information_schema.columns
where table_schema = '{schema_literal}' and table_name = '{name_literal}'
order by ordinal_position;

-- name: indexes
-- Of a prefix that is indexed its length is told.
select
    index_name,
    index_name = 'PRIMARY',
    non_unique = 0,
    1,
    1,
    concat(coalesce(column_name, ''), if(sub_part is null, '', concat('(', sub_part, ')')))
from information_schema.statistics
where table_schema = '{schema_literal}' and table_name = '{name_literal}'
order by index_name, seq_in_index;

-- name: table
select
    outbox.table_type,
    coalesce((select engines.transactions from information_schema.engines where engines.engine = outbox.engine), '') = 'YES'
from information_schema.tables as outbox
where outbox.table_schema = '{schema_literal}' and outbox.table_name = '{name_literal}';

-- name: settings
select 'engine', coalesce(engine, '')
from information_schema.tables
where table_schema = '{schema_literal}' and table_name = '{name_literal}'
union all
select 'row_format', lower(row_format)
from information_schema.tables
where table_schema = '{schema_literal}' and table_name = '{name_literal}'
union all
-- That of the header columns which are added later.
select 'collate', table_collation
from information_schema.tables
where table_schema = '{schema_literal}' and table_name = '{name_literal}';

-- name: role
-- Asked here, because whoever may not see others' accounts must hear of it, and not that there is none.
select user from mysql.user where user = :user and host = :host;

-- name: actions
-- By whatever way, but for roles that were granted.
select distinct lower(privilege_type)
from (
    select grantee, privilege_type from information_schema.user_privileges
    union all
    select grantee, privilege_type from information_schema.schema_privileges where '{schema_literal}' like table_schema
    union all
    select grantee, privilege_type from information_schema.table_privileges
    where table_schema = '{schema_literal}' and table_name = '{name_literal}'
) as granted
where grantee = concat('''', :user, '''@''', :host, '''')
    and lower(privilege_type) in (
        'select', 'insert', 'update', 'delete', 'drop', 'create', 'alter', 'references', 'index', 'trigger'
    );

-- name: column_actions
select lower(privilege_type), column_name
from information_schema.column_privileges
where table_schema = '{schema_literal}'
    and table_name = '{name_literal}'
    and grantee = concat('''', :user, '''@''', :host, '''');

-- name: everywhere
-- Under MySQL's name for what MariaDB calls otherwise since 10.5. What is about tables counts as an action on each.
select if(privilege_type = 'BINLOG MONITOR', 'replication client', lower(privilege_type))
from information_schema.user_privileges
where grantee = concat('''', :user, '''@''', :host, '''')
    and privilege_type not in (
        'USAGE', 'SELECT', 'INSERT', 'UPDATE', 'DELETE', 'DROP', 'CREATE', 'ALTER', 'REFERENCES', 'INDEX', 'TRIGGER'
    )
order by 1;

-- name: lost_heads
select
    exists (select 1 from `{outbox}` where `{source}` = :source and `{sequence}` is not null)
    and not exists (select 1 from `{heads}` where source = :source);

-- name: written
select count(*) from (select 1 from `{table}` limit :limit) as some_rows;
