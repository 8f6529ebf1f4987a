-- For the service's database.

-- outbox outbox

select get_lock('cdc-outbox upgrade', 60);

-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set session lock_wait_timeout = 5;

create table if not exists `cdc_outbox_version` (
    component varchar(255) not null primary key,
    version integer not null check (version >= 0),
    upgraded_at datetime(6) not null default (utc_timestamp(6))
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

create table if not exists `outbox` (
    `id` char(36) character set ascii collate ascii_bin not null primary key,
    `aggregatetype` varchar(249) not null,
    `aggregateid` varchar(1000) not null,
    `type` varchar(249) not null,
    `payload` json,
    `sequence` bigint,
    `source` varchar(255) not null default 'orders.1',
    `traceparent` longtext,
    `tracestate` longtext,
    `created_at` datetime(6) not null default (utc_timestamp(6))
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

create table if not exists `outbox_heads` (
    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
    -- 1,504 bytes and its lengths, of 3,072.
    source varbinary(255) not null default 'orders.1',
    aggregatetype varbinary(249) not null,
    aggregateid varbinary(1000) not null,
    last bigint not null check (last >= 0),
    primary key (source, aggregatetype, aggregateid)
) engine = InnoDB row_format = dynamic;

insert into `cdc_outbox_version` (component, version)
values ('outbox outbox', 1)
on duplicate key update
    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
    version = greatest(version, 1);

select release_lock('cdc-outbox upgrade');

-- inbox inbox

select get_lock('cdc-outbox upgrade', 60);

-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set session lock_wait_timeout = 5;

create table if not exists `cdc_outbox_version` (
    component varchar(255) not null primary key,
    version integer not null check (version >= 0),
    upgraded_at datetime(6) not null default (utc_timestamp(6))
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

-- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. No key has more than
-- 2,563 bytes and its lengths, of 3,072.
create table if not exists `inbox` (
    consumer varbinary(255) not null,
    event_id varbinary(2300) not null,
    -- The transaction's name, for whoever asks which of the ids it claimed: counts of rows mean what the client wants.
    claim_token binary(16) not null,
    claimed_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, event_id)
) engine = InnoDB row_format = dynamic;

create table if not exists `inbox_watermarks` (
    consumer varbinary(255) not null,
    source varbinary(500) not null,
    aggregatetype varbinary(500) not null,
    aggregateid varbinary(1300) not null,
    last bigint not null,
    parked bigint not null default 0,
    updated_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, source, aggregatetype, aggregateid)
) engine = InnoDB row_format = dynamic;

-- In the order of `turn` and `parked_id` an aggregate's events are applied: their numbers, where they have any.
create table if not exists `inbox_parked` (
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
    unique key `inbox_parked_ids` (consumer, event_id),
    key `inbox_parked_aggregates` (consumer, source, aggregatetype, aggregateid, blocks, turn),
    key `inbox_parked_due` (consumer, state, retry_at)
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

create table if not exists `inbox_holes` (
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

create table if not exists `inbox_epochs` (
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

create table if not exists `inbox_starts` (
    consumer varbinary(255) not null,
    event_id varbinary(2300) not null,
    started int not null,
    started_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, event_id)
) engine = InnoDB row_format = dynamic;

create table if not exists `inbox_purges` (
    consumer varbinary(255) not null,
    purged_before datetime(6) not null,
    purged_at datetime(6) not null default (utc_timestamp(6)),
    primary key (consumer, purged_before)
) engine = InnoDB row_format = dynamic;

insert into `cdc_outbox_version` (component, version)
values ('inbox inbox', 1)
on duplicate key update
    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
    version = greatest(version, 1);

select release_lock('cdc-outbox upgrade');

-- What MariaDB alone knows as `add column if not exists`.
set @add_header_column = if(
    exists (
        select * from information_schema.columns
        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
    ),
    'do 0',
    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
);

prepare add_header_column from @add_header_column;

execute add_header_column;

deallocate prepare add_header_column;

-- What MariaDB alone knows as `add column if not exists`.
set @add_header_column = if(
    exists (
        select * from information_schema.columns
        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
    ),
    'do 0',
    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
);

prepare add_header_column from @add_header_column;

execute add_header_column;

deallocate prepare add_header_column;
exit 0

== another schema
@@ -47 +47 @@
--- inbox inbox
+-- inbox other.inbox
@@ -54 +54 @@
-create table if not exists `cdc_outbox_version` (
+create table if not exists `other`.`cdc_outbox_version` (
@@ -62 +62 @@
-create table if not exists `inbox` (
+create table if not exists `other`.`inbox` (
@@ -71 +71 @@
-create table if not exists `inbox_watermarks` (
+create table if not exists `other`.`inbox_watermarks` (
@@ -83 +83 @@
-create table if not exists `inbox_parked` (
+create table if not exists `other`.`inbox_parked` (
@@ -115 +115 @@
-create table if not exists `inbox_holes` (
+create table if not exists `other`.`inbox_holes` (
@@ -130 +130 @@
-create table if not exists `inbox_epochs` (
+create table if not exists `other`.`inbox_epochs` (
@@ -145 +145 @@
-create table if not exists `inbox_starts` (
+create table if not exists `other`.`inbox_starts` (
@@ -153 +153 @@
-create table if not exists `inbox_purges` (
+create table if not exists `other`.`inbox_purges` (
@@ -160,2 +160,2 @@
-insert into `cdc_outbox_version` (component, version)
-values ('inbox inbox', 1)
+insert into `other`.`cdc_outbox_version` (component, version)
+values ('inbox other.inbox', 1)
