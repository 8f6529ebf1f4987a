begin;

set local search_path = pg_catalog, pg_temp;
set local row_security = off;

-- outbox public.outbox

select
    pg_catalog.set_config('cdc_outbox.search_path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('cdc_outbox.row_security', pg_catalog.current_setting('row_security'), true);

-- A role that may create functions in a schema of the search path could have the role that runs this call them.
set local search_path = pg_catalog, pg_temp;

-- Rows that a policy hides would be taken for none; this makes an error of it.
set local row_security = off;

select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('cdc-outbox upgrade', 0));

-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set local lock_timeout = '5s';

create table if not exists "public"."cdc_outbox_version" (
    component text collate "C" primary key,
    version integer not null check (version > 0),
    upgraded_at timestamptz not null default clock_timestamp()
);

create table if not exists "public"."outbox" (
    "id" uuid primary key,
    "aggregatetype" text not null,
    "aggregateid" text not null,
    "type" text not null,
    "payload" json,
    "sequence" bigint,
    "source" text not null default 'orders.1',
    "traceparent" text,
    "tracestate" text,
    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
);

create table if not exists "public"."outbox_heads" (
    source text collate "C" not null default 'orders.1',
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    last bigint not null check (last > 0),
    primary key (source, aggregatetype, aggregateid)
);

-- By itself, because SQLAlchemy's `create_all` makes the heads of an outbox for messages, and knows no such settings.
-- A head is updated with every event. Free space on its page keeps the update there and out of the index; the versions
-- that updates leave are cleared after one update in fifty rows, by default it is one in five.
alter table "public"."outbox_heads" set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);

-- A transaction's number means nothing on another server, where a dump may bring it.
create table if not exists "public"."outbox_checkpoints" (
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

-- Who may publish the outbox: one row, none before the first publisher.
create table if not exists "public"."outbox_publishers" (
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

-- The heartbeats of the last day: a database that went back to an older state shows it at the first look.
create table if not exists "public"."outbox_heartbeats" (
    number bigint primary key,
    id uuid not null unique,
    previous uuid,
    written_at timestamptz not null,
    lsn pg_lsn not null,
    system text not null
);

insert into "public"."cdc_outbox_version" as known (component, version)
values ('outbox public.outbox', 1)
on conflict (component) do update
set version = excluded.version, upgraded_at = clock_timestamp()
where known.version < excluded.version;

select
    pg_catalog.set_config('search_path', pg_catalog.current_setting('cdc_outbox.search_path', true), true),
    pg_catalog.set_config('row_security', pg_catalog.current_setting('cdc_outbox.row_security', true), true);

-- inbox public.inbox

select
    pg_catalog.set_config('cdc_outbox.search_path', pg_catalog.current_setting('search_path'), true),
    pg_catalog.set_config('cdc_outbox.row_security', pg_catalog.current_setting('row_security'), true);

-- A role that may create functions in a schema of the search path could have the role that runs this call them.
set local search_path = pg_catalog, pg_temp;

-- Rows that a policy hides would be taken for none; this makes an error of it.
set local row_security = off;

select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('cdc-outbox upgrade', 0));

-- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
set local lock_timeout = '5s';

create table if not exists "public"."cdc_outbox_version" (
    component text collate "C" primary key,
    version integer not null check (version > 0),
    upgraded_at timestamptz not null default clock_timestamp()
);

create table if not exists "public"."inbox" (
    consumer text collate "C" not null,
    event_id text collate "C" not null,
    claimed_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
) partition by range (event_id);

create table if not exists "public"."inbox_rest" partition of "public"."inbox" default;

-- A watermark is updated with every batch. Free space on its page keeps the update there and out of the index.
create table if not exists "public"."inbox_watermarks" (
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

-- In the order of `turn` and `parked_id` an aggregate's events are applied: their numbers, where they have any.
create table if not exists "public"."inbox_parked" (
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

create index if not exists "inbox_parked_aggregates" on "public"."inbox_parked" (
    consumer, source, aggregatetype, aggregateid, blocks, turn, parked_id
);

create index if not exists "inbox_parked_due" on "public"."inbox_parked" (consumer, retry_at, parked_id) where state = 'waiting';

create table if not exists "public"."inbox_holes" (
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

create table if not exists "public"."inbox_epochs" (
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

create table if not exists "public"."inbox_starts" (
    consumer text collate "C" not null,
    event_id text collate "C" not null,
    started integer not null,
    started_at timestamptz not null default clock_timestamp(),
    primary key (consumer, event_id)
);

create table if not exists "public"."inbox_purges" (
    consumer text collate "C" not null,
    purged_before timestamptz not null,
    purged_at timestamptz not null default clock_timestamp(),
    primary key (consumer, purged_before)
);

insert into "public"."cdc_outbox_version" as known (component, version)
values ('inbox public.inbox', 1)
on conflict (component) do update
set version = excluded.version, upgraded_at = clock_timestamp()
where known.version < excluded.version;

select
    pg_catalog.set_config('search_path', pg_catalog.current_setting('cdc_outbox.search_path', true), true),
    pg_catalog.set_config('row_security', pg_catalog.current_setting('cdc_outbox.row_security', true), true);

do $$
-- An outbox that was made for messages has none.
begin
    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
create table if not exists "public"."outbox" (
    "id" uuid primary key,
    "aggregatetype" text not null,
    "aggregateid" text not null,
    "type" text not null,
    "payload" json,
    "sequence" bigint,
    "source" text not null default 'orders.1',
    "traceparent" text,
    "tracestate" text,
    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
);
    end if;
end
$$;

create or replace function "public"."outbox_heartbeat"(pipeline text, pause interval default '1 minute') returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- Who waits for a row here lets the connector wait.
set lock_timeout = '5s'
as $$
declare
    at timestamptz := clock_timestamp();
    last "public"."outbox_heartbeats";
    beat "public"."outbox_heartbeats";
    content text;
begin
    select * into last from "public"."outbox_heartbeats" order by number desc limit 1;
    -- One is due once a minute, where the clock went back, after a start of the server, and at a session's first call:
    -- pg_stat_activity would show a definer nothing of the session.
    if last.written_at between at - pause and at
        and last.written_at >= pg_postmaster_start_time()
        and coalesce(current_setting('cdc_outbox.heartbeat', true), '') <> ''
    then
        perform pg_logical_emit_message(false, 'cdc-outbox.heartbeat', '');
        return null;
    end if;
    insert into "public"."outbox_heartbeats" (number, id, previous, written_at, lsn, system)
    values (
        coalesce(last.number, 0) + 1, gen_random_uuid(), last.id, at, pg_current_wal_insert_lsn(),
        (select cast(system_identifier as text) from pg_control_system())
    )
    on conflict do nothing
    returning * into beat;
    if beat.number is null then  -- another session was faster
        return null;
    end if;
    perform set_config('cdc_outbox.heartbeat', 'written', false);
    content := json_build_object(
        'number', beat.number, 'previous', beat.previous, 'at', beat.written_at, 'lsn', beat.lsn,
        'started', pg_postmaster_start_time(), 'system', beat.system,
        'timeline', (select timeline_id from pg_control_checkpoint())
    );
    insert into "public"."outbox" ("id", "aggregatetype", "aggregateid", "type", "payload", "sequence")
    values (
        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
    );
    -- The publication has inserts only: what is left would be for `prune` to clear away.
    delete from "public"."outbox" where "id" = beat.id;
    delete from "public"."outbox_heartbeats" where written_at < at - interval '1 day' and number < beat.number;
    return beat.number;
end
$$;

revoke all on function "public"."outbox_heartbeat"(text, interval) from public;

do $$
begin
    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
    if not exists (
        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'traceparent'
    ) then
        alter table "public"."outbox" add column "traceparent" text;
    end if;
end
$$;

do $$
begin
    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
    if not exists (
        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'tracestate'
    ) then
        alter table "public"."outbox" add column "tracestate" text;
    end if;
end
$$;

do $$
begin
    if not exists (select from pg_publication where pubname = 'orders_outbox') then
        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
    else
        if false and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then
            alter publication "orders_outbox" set (publish_via_partition_root = true);
        end if;
        if not exists (
            select from pg_publication_tables
            where pubname = 'orders_outbox' and schemaname = 'public' and tablename = 'outbox'
        ) then
            alter publication "orders_outbox" add table "public"."outbox";
        end if;
    end if;
end
$$;

commit;
exit 0

== another schema
@@ -101 +101 @@
--- inbox public.inbox
+-- inbox other.inbox
@@ -118 +118 @@
-create table if not exists "public"."cdc_outbox_version" (
+create table if not exists "other"."cdc_outbox_version" (
@@ -124 +124 @@
-create table if not exists "public"."inbox" (
+create table if not exists "other"."inbox" (
@@ -131 +131 @@
-create table if not exists "public"."inbox_rest" partition of "public"."inbox" default;
+create table if not exists "other"."inbox_rest" partition of "other"."inbox" default;
@@ -134 +134 @@
-create table if not exists "public"."inbox_watermarks" (
+create table if not exists "other"."inbox_watermarks" (
@@ -147 +147 @@
-create table if not exists "public"."inbox_parked" (
+create table if not exists "other"."inbox_parked" (
@@ -177 +177 @@
-create index if not exists "inbox_parked_aggregates" on "public"."inbox_parked" (
+create index if not exists "inbox_parked_aggregates" on "other"."inbox_parked" (
@@ -181,3 +181,3 @@
-create index if not exists "inbox_parked_due" on "public"."inbox_parked" (consumer, retry_at, parked_id) where state = 'waiting';
-
-create table if not exists "public"."inbox_holes" (
+create index if not exists "inbox_parked_due" on "other"."inbox_parked" (consumer, retry_at, parked_id) where state = 'waiting';
+
+create table if not exists "other"."inbox_holes" (
@@ -197 +197 @@
-create table if not exists "public"."inbox_epochs" (
+create table if not exists "other"."inbox_epochs" (
@@ -212 +212 @@
-create table if not exists "public"."inbox_starts" (
+create table if not exists "other"."inbox_starts" (
@@ -220 +220 @@
-create table if not exists "public"."inbox_purges" (
+create table if not exists "other"."inbox_purges" (
@@ -227,2 +227,2 @@
-insert into "public"."cdc_outbox_version" as known (component, version)
-values ('inbox public.inbox', 1)
+insert into "other"."cdc_outbox_version" as known (component, version)
+values ('inbox other.inbox', 1)
