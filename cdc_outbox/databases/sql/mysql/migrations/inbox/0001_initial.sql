-- name: create_inbox
-- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. No key has more than
-- 2,563 bytes and its lengths, of 3,072.
create table if not exists `{inbox}` (
    consumer varbinary(255) not null,
    event_id varbinary(2300) not null,
    -- The transaction's name, for whoever asks which of the ids it claimed: counts of rows mean what the client wants.
    claim_token binary(16) not null,
    claimed_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, event_id)
) engine = InnoDB row_format = dynamic;

-- name: create_watermarks
create table if not exists `{watermarks}` (
    consumer varbinary(255) not null,
    source varbinary(500) not null,
    aggregatetype varbinary(500) not null,
    aggregateid varbinary(1300) not null,
    last bigint not null,
    parked bigint not null default 0,
    updated_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, source, aggregatetype, aggregateid)
) engine = InnoDB row_format = dynamic;

-- name: create_parked
-- In the order of `turn` and `parked_id` an aggregate's events are applied: their numbers, where they have any.
create table if not exists `{parked}` (
    parked_id bigint not null auto_increment primary key,
    consumer varbinary(255) not null,
    source varbinary(500) not null,
    aggregatetype varbinary(500) not null,
    aggregateid varbinary(1300) not null,
    event_id varbinary(2300) not null,
    type longtext not null,
    sequence bigint,
    turn bigint not null,
    state varchar(20) not null check (state in ('waiting', 'dead')),
    reason varchar(20) not null,
    blocks boolean not null,
    forced boolean not null default false,
    error longtext,
    attempts int not null default 0,
    parked_at datetime(6) not null default (utc_timestamp(6)),
    tried_at datetime(6) not null default (utc_timestamp(6)),
    retry_at datetime(6),
    topic varbinary(255) not null,
    `partition` int not null,
    `offset` bigint not null,
    timestamp_ms bigint,
    `key` longblob,
    value longblob,
    headers longtext not null,
    bytes bigint not null,
    unique key `{parked_ids}` (consumer, event_id),
    key `{parked_aggregates}` (consumer, source, aggregatetype, aggregateid, blocks, turn),
    key `{parked_due}` (consumer, state, retry_at)
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

-- name: create_holes
create table if not exists `{holes}` (
    consumer varbinary(255) not null,
    source varbinary(500) not null,
    aggregatetype varbinary(500) not null,
    aggregateid varbinary(1300) not null,
    first bigint not null,
    last bigint not null,
    reason varchar(20) not null,
    event_id varbinary(2300),
    note longtext,
    noted_at datetime(6) not null default (utc_timestamp(6)),
    check (last >= first),
    primary key (consumer, source, aggregatetype, aggregateid, first)
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

-- name: create_epochs
create table if not exists `{epochs}` (
    consumer varbinary(255) not null,
    topic varbinary(255) not null,
    `partition` int not null,
    epoch bigint not null,
    unfinished int not null,
    assigned_at datetime(6) not null default (utc_timestamp(6)),
    -- Behind the last message whose effects this database has, and the topic that it counts in.
    next_offset bigint,
    leader_epoch int,
    cluster_id varbinary(255) not null default '',
    topic_id varbinary(255) not null default '',
    primary key (consumer, topic, `partition`)
) engine = InnoDB row_format = dynamic;

-- name: create_starts
create table if not exists `{starts}` (
    consumer varbinary(255) not null,
    event_id varbinary(2300) not null,
    started int not null,
    started_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, event_id)
) engine = InnoDB row_format = dynamic;

-- name: create_purges
create table if not exists `{purges}` (
    consumer varbinary(255) not null,
    purged_before datetime(6) not null,
    purged_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, purged_before)
) engine = InnoDB row_format = dynamic;
