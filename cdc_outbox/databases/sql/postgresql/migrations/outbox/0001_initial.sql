-- name: create_outbox if has_table
create table if not exists "{outbox}" (
    "{id}" uuid primary key,
    "{aggregate_type}" text not null,
    "{aggregate_id}" text not null,
    "{type}" text not null,
    "{payload}" "{payload_type}",
    "{sequence}" bigint,
    "{source}" text not null default '{first_source}',
    -- if header_definitions
    "{header_definitions}" text,
    -- end
    "{created_at}" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
)
-- if partitioned
partition by range ("{id}")
-- end
;

-- name: create_rest if partitioned
create table if not exists "{rest}" partition of "{outbox}" default;

-- name: create_heads if is_numbered
create table if not exists "{heads}" (
    source text collate "C" not null default '{first_source}',
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    last bigint not null check (last > 0),
    primary key (source, aggregatetype, aggregateid)
);

-- name: settle_heads if is_numbered
-- By itself, because SQLAlchemy's `create_all` makes the heads of an outbox for messages, and knows no such settings.
-- A head is updated with every event. Free space on its page keeps the update there and out of the index; the versions
-- that updates leave are cleared after one update in fifty rows, by default it is one in five.
alter table "{heads}" set ("{settings}");

-- name: create_checkpoints
-- A transaction's number means nothing on another server, where a dump may bring it.
create table if not exists "{checkpoints}" (
    number bigint generated always as identity primary key,
    system text not null default cast((pg_control_system()).system_identifier as text),
    slot text collate "C" not null,
    reader text collate "C" not null,
    position pg_lsn not null,
    oldest bigint not null,
    taken_at timestamptz not null,
    ends jsonb,
    compared boolean not null default false
);

-- name: create_publishers
-- Who may publish the outbox: one row, none before the first publisher.
create table if not exists "{publishers}" (
    single boolean primary key default true check (single),
    publisher text collate "C" not null check (publisher in ('debezium', 'wal-relay', 'table-relay')),
    slot text collate "C",
    epoch bigint not null check (epoch > 0),
    confirmed pg_lsn,
    system text not null,
    timeline integer not null,
    instance text,
    seen_at timestamptz not null
);

-- name: create_heartbeats if has_heartbeats
-- The heartbeats of the last day: a database that went back to an older state shows it at the first look.
create table if not exists "{heartbeats}" (
    number bigint primary key,
    id uuid not null unique,
    previous uuid,
    written_at timestamptz not null,
    lsn pg_lsn not null,
    system text not null
);
