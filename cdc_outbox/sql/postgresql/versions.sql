-- name: lock
select pg_advisory_xact_lock(hashtextextended('cdc-outbox upgrade', 0));

-- name: limit
-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set local lock_timeout = '5s';

-- name: create
create table if not exists {versions} (
    component text collate "C" primary key,
    version integer not null check (version > 0),
    upgraded_at timestamptz not null default clock_timestamp()
);

-- name: find
select version from {versions} where component = {component_literal}

-- name: exists
select to_regclass({table_literal}) is not null

-- name: record
insert into {versions} as known (component, version)
values ({component_literal}, {version_literal})
on conflict (component) do update
set version = excluded.version, upgraded_at = clock_timestamp()
where known.version < excluded.version;

-- name: used
select exists (select 1 from {table})

-- name: drop
drop table if exists {table}

-- name: drop_function
drop function if exists {table}(text, interval)

-- name: forget
delete from {versions} where component = {component_literal}
