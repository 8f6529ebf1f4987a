-- name: save_settings
select
    pg_catalog.set_config('cdc_outbox.search_path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('cdc_outbox.row_security', pg_catalog.current_setting('row_security'), true);

-- name: fix_settings
-- A role that may create functions in a schema of the search path could have the role that runs this call them.
set local search_path = pg_catalog, pg_temp;
-- then
-- Rows that a policy hides would be taken for none; this makes an error of it.
set local row_security = off;

-- name: restore_settings
select
    pg_catalog.set_config('search_path', pg_catalog.current_setting('cdc_outbox.search_path', true), true),
    pg_catalog.set_config('row_security', pg_catalog.current_setting('cdc_outbox.row_security', true), true);

-- name: lock
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('cdc-outbox upgrade', 0));

-- name: limit
-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set local lock_timeout = '5s';

-- name: create
create table if not exists "{versions}" (
    component text collate "C" primary key,
    version integer not null check (version > 0),
    upgraded_at timestamptz not null default clock_timestamp()
);

-- name: find
select version from "{versions}" where component = '{component_literal}';

-- name: exists
select pg_catalog.to_regclass('{table_literal}') is not null;

-- name: record
insert into "{versions}" as known (component, version)
values ('{component_literal}', '{version_literal}')
on conflict (component) do update
set version = excluded.version, upgraded_at = clock_timestamp()
where known.version < excluded.version;

-- name: used
select exists (select 1 from "{table}");

-- name: drop
drop table if exists "{table}";

-- name: drop_function
drop function if exists "{table}"(text, interval);

-- name: forget
delete from "{versions}" where component = '{component_literal}';
