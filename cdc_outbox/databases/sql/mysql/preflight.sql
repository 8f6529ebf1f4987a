-- No percent sign: a driver would see a parameter in it.

-- name: read_only
set session transaction read only;

-- name: server
select version(), coalesce(database(), '');

-- name: settings
-- Asked by names, because no server has them all.
show global variables where variable_name in (
    'binlog_expire_logs_seconds', 'binlog_format', 'binlog_row_image', 'expire_logs_days', 'gtid_binlog_state',
    'gtid_mode', 'gtid_strict_mode', 'log_bin', 'log_bin_compress', 'server_id'
);

-- name: slave_hosts
show slave hosts;

-- name: replicas
/*!80200 show replicas */;

-- name: mariadb_accounts
select
    account.host,
    coalesce(json_value(account.priv, '$.account_locked'), '0') in ('1', 'true'),
    exists (select 1 from mysql.roles_mapping as link where link.user = account.user and link.host = account.host)
from mysql.global_priv as account
where account.user = :user and coalesce(json_value(account.priv, '$.is_role'), '0') not in ('1', 'true')
order by account.host;

-- name: mysql_accounts
select
    account.host,
    account.account_locked = 'Y',
    exists (select 1 from mysql.role_edges as link where link.to_user = account.user and link.to_host = account.host)
from mysql.user as account
where account.user = :user
order by account.host;
