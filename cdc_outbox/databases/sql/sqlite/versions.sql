-- name: create
create table if not exists "{versions}" (
    component text not null primary key,
    version integer not null check (version > 0),
    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
) strict;
-- then
-- Changes nothing, and takes the lock for writing before anything is looked at.
update "{versions}" set version = version where false;

-- name: find
select version from "{versions}" where component = '{component_literal}';

-- name: exists
select count(*) from "{schema}".sqlite_master where name = '{name_literal}' collate nocase;

-- name: record
insert into "{versions}" as known (component, version)
values ('{component_literal}', '{version_literal}')
on conflict (component) do update
set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
where known.version < excluded.version;

-- name: used
select exists (select 1 from "{table}");

-- name: drop
drop table if exists "{table}";

-- name: forget
delete from "{versions}" where component = '{component_literal}';
