-- name: lock
select get_lock('cdc-outbox upgrade', 60);

-- name: limit
-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set session lock_wait_timeout = 5;

-- name: create
create table if not exists `{versions}` (
    component varchar(255) not null primary key,
    version integer not null check (version >= 0),
    upgraded_at datetime(6) not null default (utc_timestamp(6))
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

-- name: find
select version from `{versions}` where component = '{component_literal}';

-- name: exists
select count(*) from information_schema.tables where table_schema = '{schema_literal}' and table_name = '{name_literal}';

-- name: start
-- Tables that stay after a failure in the middle are ours: the next upgrade goes on with them.
insert into `{versions}` (component, version) values ('{component_literal}', 0);

-- name: record
insert into `{versions}` (component, version)
values ('{component_literal}', '{version_literal}')
on duplicate key update
    upgraded_at = if(version < '{version_literal}', utc_timestamp(6), upgraded_at),
    version = greatest(version, '{version_literal}');

-- name: settle
commit;

-- name: unlock
select release_lock('cdc-outbox upgrade');

-- name: used
select exists (select 1 from `{table}`);

-- name: drop
drop table if exists `{table}`;

-- name: forget
delete from `{versions}` where component = '{component_literal}';
