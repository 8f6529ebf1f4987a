-- No percent sign: a driver would see a parameter in it.

-- name: read_only
set session transaction read only

-- name: server
select version(), coalesce(database(), '')

-- name: settings
-- Asked by names, because no server has them all.
show global variables where variable_name in (
    'binlog_expire_logs_seconds', 'binlog_format', 'binlog_row_image', 'expire_logs_days', 'gtid_binlog_state',
    'gtid_mode', 'gtid_strict_mode', 'log_bin', 'log_bin_compress', 'server_id'
)

-- name: master_status
show master status

-- name: log_status
show binary log status

-- name: files
show binary logs

-- name: slave_hosts
show slave hosts

-- name: replicas
show replicas

-- name: mariadb_accounts
select
    account.host,
    coalesce(json_value(account.priv, '$.account_locked'), '0') in ('1', 'true'),
    exists (select 1 from mysql.roles_mapping as link where link.user = account.user and link.host = account.host)
from mysql.global_priv as account
where account.user = :user and coalesce(json_value(account.priv, '$.is_role'), '0') not in ('1', 'true')
order by account.host

-- name: mysql_accounts
select
    account.host,
    account.account_locked = 'Y',
    exists (select 1 from mysql.role_edges as link where link.to_user = account.user and link.to_host = account.host)
from mysql.user as account
where account.user = :user
order by account.host

-- name: privileges
-- Under MySQL's name for what MariaDB calls otherwise since 10.5; `select` on the table, by whatever way.
select distinct if(privilege_type = 'BINLOG MONITOR', 'replication client', lower(privilege_type))
from (
    select grantee, privilege_type from information_schema.user_privileges
    union all
    select grantee, privilege_type from information_schema.schema_privileges where :schema like table_schema
    union all
    select grantee, privilege_type
    from information_schema.table_privileges
    where table_schema = :schema and table_name = :table
) as granted
where grantee = concat('''', :user, '''@''', :host, '''')
    and privilege_type in ('SELECT', 'REPLICATION SLAVE', 'REPLICATION CLIENT', 'BINLOG MONITOR')

-- name: table
select
    outbox.table_type,
    coalesce(outbox.engine, ''),
    coalesce((select engines.transactions from information_schema.engines where engines.engine = outbox.engine), '') = 'YES'
from information_schema.tables as outbox
where outbox.table_schema = :schema and outbox.table_name = :table

-- name: columns
select
    column_name,
    lower(data_type),
    character_maximum_length,
    is_nullable = 'NO',
    coalesce(character_set_name, '')
from information_schema.columns
where table_schema = :schema and table_name = :table
order by ordinal_position

-- name: keys
-- A prefix that is unique says more than the whole.
select index_name, column_name
from information_schema.statistics
where table_schema = :schema and table_name = :table and non_unique = 0
order by index_name, seq_in_index

-- name: written
select count(*) from (select 1 from {outbox} limit :limit) as some_rows
