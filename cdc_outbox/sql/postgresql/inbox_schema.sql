-- name: create
create table if not exists {inbox} (
    consumer text collate "C" not null,
    event_id text collate "C" not null,
    claimed_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
) partition by range (event_id);
create table if not exists {rest} partition of {inbox} default;
create table if not exists {watermarks} (
    consumer text collate "C" not null,
    source text collate "C" not null,
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    last bigint not null check (last > 0),
    updated_at timestamptz not null default clock_timestamp(),
    primary key (consumer, source, aggregatetype, aggregateid)
);
