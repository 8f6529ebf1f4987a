begin immediate;

-- outbox main.outbox

create table if not exists "main"."cdc_outbox_version" (
    component text not null primary key,
    version integer not null check (version > 0),
    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
) strict;

-- Changes nothing, and takes the lock for writing before anything is looked at.
update "main"."cdc_outbox_version" set version = version where false;

create table if not exists "main"."outbox" (
    "id" text not null primary key,
    "aggregatetype" text not null,
    "aggregateid" text not null,
    "type" text not null,
    "payload" text,
    "sequence" integer,
    "source" text not null default 'orders.1',
    "traceparent" text,
    "tracestate" text,
    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
) strict;

create table if not exists "main"."outbox_heads" (
    source text not null default 'orders.1',
    aggregatetype text not null,
    aggregateid text not null,
    last integer not null check (last > 0),
    event_id text not null,
    primary key (aggregatetype, aggregateid, source)
) strict, without rowid;

insert into "main"."cdc_outbox_version" as known (component, version)
values ('outbox main.outbox', 1)
on conflict (component) do update
set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
where known.version < excluded.version;

-- inbox main.inbox

create table if not exists "main"."cdc_outbox_version" (
    component text not null primary key,
    version integer not null check (version > 0),
    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
) strict;

-- Changes nothing, and takes the lock for writing before anything is looked at.
update "main"."cdc_outbox_version" set version = version where false;

create table if not exists "main"."inbox" (
    consumer text not null,
    event_id text not null,
    -- The transaction's name, by which claims are told from those of another.
    claim_token text not null,
    claimed_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, event_id)
) strict, without rowid;

create table if not exists "main"."inbox_watermarks" (
    consumer text not null,
    source text not null,
    aggregatetype text not null,
    aggregateid text not null,
    last integer not null,
    parked integer not null default 0,
    updated_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, source, aggregatetype, aggregateid)
) strict, without rowid;

-- In the order of `turn` and `parked_id` an aggregate's events are applied: their numbers, where they have any.
create table if not exists "main"."inbox_parked" (
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

create index if not exists "main"."inbox_parked_aggregates" on "inbox_parked" (
    consumer, source, aggregatetype, aggregateid, blocks, turn, parked_id
);

create index if not exists "main"."inbox_parked_due" on "inbox_parked" (consumer, retry_at) where state = 'waiting';

create table if not exists "main"."inbox_holes" (
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

create table if not exists "main"."inbox_epochs" (
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

create table if not exists "main"."inbox_starts" (
    consumer text not null,
    event_id text not null,
    started integer not null,
    started_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, event_id)
) strict, without rowid;

create table if not exists "main"."inbox_purges" (
    consumer text not null,
    purged_before text not null,
    purged_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now')),
    primary key (consumer, purged_before)
) strict, without rowid;

insert into "main"."cdc_outbox_version" as known (component, version)
values ('inbox main.inbox', 1)
on conflict (component) do update
set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
where known.version < excluded.version;

-- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.

commit;
exit 0

== another schema
@@ -42 +42 @@
--- inbox main.inbox
+-- inbox other.inbox
@@ -44 +44 @@
-create table if not exists "main"."cdc_outbox_version" (
+create table if not exists "other"."cdc_outbox_version" (
@@ -51 +51 @@
-update "main"."cdc_outbox_version" set version = version where false;
+update "other"."cdc_outbox_version" set version = version where false;
@@ -53 +53 @@
-create table if not exists "main"."inbox" (
+create table if not exists "other"."inbox" (
@@ -62 +62 @@
-create table if not exists "main"."inbox_watermarks" (
+create table if not exists "other"."inbox_watermarks" (
@@ -74 +74 @@
-create table if not exists "main"."inbox_parked" (
+create table if not exists "other"."inbox_parked" (
@@ -106 +106 @@
-create index if not exists "main"."inbox_parked_aggregates" on "inbox_parked" (
+create index if not exists "other"."inbox_parked_aggregates" on "inbox_parked" (
@@ -110 +110 @@
-create index if not exists "main"."inbox_parked_due" on "inbox_parked" (consumer, retry_at) where state = 'waiting';
+create index if not exists "other"."inbox_parked_due" on "inbox_parked" (consumer, retry_at) where state = 'waiting';
@@ -112 +112 @@
-create table if not exists "main"."inbox_holes" (
+create table if not exists "other"."inbox_holes" (
@@ -126 +126 @@
-create table if not exists "main"."inbox_epochs" (
+create table if not exists "other"."inbox_epochs" (
@@ -141 +141 @@
-create table if not exists "main"."inbox_starts" (
+create table if not exists "other"."inbox_starts" (
@@ -149 +149 @@
-create table if not exists "main"."inbox_purges" (
+create table if not exists "other"."inbox_purges" (
@@ -156,2 +156,2 @@
-insert into "main"."cdc_outbox_version" as known (component, version)
-values ('inbox main.inbox', 1)
+insert into "other"."cdc_outbox_version" as known (component, version)
+values ('inbox other.inbox', 1)
