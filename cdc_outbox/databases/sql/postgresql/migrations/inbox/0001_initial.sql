-- name: create_inbox
create table if not exists "{inbox}" (
    consumer text collate "C" not null,
    event_id text collate "C" not null,
    claimed_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
) partition by range (event_id);

-- name: create_rest
create table if not exists "{rest}" partition of "{inbox}" default;

-- name: create_watermarks
-- A watermark is updated with every batch. Free space on its page keeps the update there and out of the index.
create table if not exists "{watermarks}" (
    consumer text collate "C" not null,
    source text collate "C" not null,
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    -- 0 is a row to lock while an aggregate's first event is parked.
    last bigint not null,
    updated_at timestamptz not null default clock_timestamp(),
    parked bigint not null default 0,
    primary key (consumer, source, aggregatetype, aggregateid)
) with (fillfactor = 50);

-- name: create_parked
-- In the order of `turn` and `parked_id` an aggregate's events are applied: their numbers, where they have any.
create table if not exists "{parked}" (
    parked_id bigint generated always as identity primary key,
    consumer text collate "C" not null,
    source text collate "C" not null,
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    event_id text collate "C" not null,
    type text not null,
    sequence bigint,
    turn bigint not null,
    state text not null check (state in ('waiting', 'dead')),
    reason text not null,
    blocks boolean not null,
    forced boolean not null default false,
    error text,
    attempts integer not null default 0,
    parked_at timestamptz not null default clock_timestamp(),
    retry_at timestamptz,
    topic text not null,
    "partition" integer not null,
    "offset" bigint not null,
    timestamp_ms bigint,
    "key" bytea,
    value bytea,
    headers text not null,
    bytes bigint not null,
    tried_at timestamptz not null default clock_timestamp(),
    unique (consumer, event_id)
);

-- name: index_parked
create index if not exists "{parked_aggregates}" on "{parked}" (
    consumer, source, aggregatetype, aggregateid, blocks, turn, parked_id
);

-- name: index_due
create index if not exists "{parked_due}" on "{parked}" (consumer, retry_at, parked_id) where state = 'waiting';

-- name: create_holes
create table if not exists "{holes}" (
    consumer text collate "C" not null,
    source text collate "C" not null,
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    first bigint not null,
    last bigint not null check (last >= first),
    reason text not null,
    event_id text,
    note text,
    noted_at timestamptz not null default clock_timestamp(),
    primary key (consumer, source, aggregatetype, aggregateid, first)
);

-- name: create_epochs
create table if not exists "{epochs}" (
    consumer text collate "C" not null,
    topic text collate "C" not null,
    "partition" integer not null,
    epoch bigint not null,
    unfinished integer not null,
    assigned_at timestamptz not null default clock_timestamp(),
    -- Behind the last message whose effects this database has, and the topic that it counts in.
    next_offset bigint,
    leader_epoch integer,
    cluster_id text not null default '',
    topic_id text not null default '',
    primary key (consumer, topic, "partition")
) with (fillfactor = 50);

-- name: create_starts
create table if not exists "{starts}" (
    consumer text collate "C" not null,
    event_id text collate "C" not null,
    started integer not null,
    started_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
);

-- name: create_purges
create table if not exists "{purges}" (
    consumer text collate "C" not null,
    purged_before timestamptz not null,
    purged_at timestamptz not null default clock_timestamp(),
    primary key (consumer, purged_before)
);
