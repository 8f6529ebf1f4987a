-- name: create_inbox
create table if not exists "{inbox}" (
    consumer text not null,
    event_id text not null,
    -- The transaction's name, by which claims are told from those of another.
    claim_token text not null,
    claimed_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, event_id)
) strict, without rowid;

-- name: create_watermarks
create table if not exists "{watermarks}" (
    consumer text not null,
    source text not null,
    aggregatetype text not null,
    aggregateid text not null,
    last integer not null,
    parked integer not null default 0,
    updated_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, source, aggregatetype, aggregateid)
) strict, without rowid;

-- name: create_parked
-- In the order of `turn` and `parked_id` an aggregate's events are applied: their numbers, where they have any.
create table if not exists "{parked}" (
    -- A parked_id that was given out once never means another event.
    parked_id integer primary key autoincrement,
    consumer text not null,
    source text not null,
    aggregatetype text not null,
    aggregateid text not null,
    event_id text not null,
    type text not null,
    sequence integer,
    turn integer not null,
    state text not null check (state in ('waiting', 'dead')),
    reason text not null,
    blocks integer not null,
    forced integer not null default 0,
    error text,
    attempts integer not null default 0,
    parked_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    -- Julian days, which seconds are added to.
    tried_at real not null default (julianday('now')),
    retry_at real,
    topic text not null,
    "partition" integer not null,
    "offset" integer not null,
    timestamp_ms integer,
    "key" blob,
    value blob,
    headers text not null,
    bytes integer not null,
    unique (consumer, event_id)
) strict;

-- name: index_parked
create index if not exists "{parked_aggregates}" on "{parked_name}" (
    consumer, source, aggregatetype, aggregateid, blocks, turn, parked_id
);

-- name: index_due
create index if not exists "{parked_due}" on "{parked_name}" (consumer, retry_at) where state = 'waiting';

-- name: create_holes
create table if not exists "{holes}" (
    consumer text not null,
    source text not null,
    aggregatetype text not null,
    aggregateid text not null,
    first integer not null,
    last integer not null check (last >= first),
    reason text not null,
    event_id text,
    note text,
    noted_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, source, aggregatetype, aggregateid, first)
) strict, without rowid;

-- name: create_epochs
create table if not exists "{epochs}" (
    consumer text not null,
    topic text not null,
    "partition" integer not null,
    epoch integer not null,
    unfinished integer not null,
    assigned_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    -- Behind the last message whose effects this database has, and the topic that it counts in.
    next_offset integer,
    leader_epoch integer,
    cluster_id text not null default '',
    topic_id text not null default '',
    primary key (consumer, topic, "partition")
) strict, without rowid;

-- name: create_starts
create table if not exists "{starts}" (
    consumer text not null,
    event_id text not null,
    started integer not null,
    started_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, event_id)
) strict, without rowid;

-- name: create_purges
create table if not exists "{purges}" (
    consumer text not null,
    purged_before text not null,
    purged_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, purged_before)
) strict, without rowid;
