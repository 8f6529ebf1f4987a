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

== mode: delete

== mode: message
@@ -27,13 +26,0 @@
-);
-
-create table if not exists "public"."outbox" (
-    "id" uuid primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" json,
-    "sequence" bigint,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
@@ -101,20 +87,0 @@
-do $$
--- An outbox that was made for messages has none.
-begin
-    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
-create table if not exists "public"."outbox" (
-    "id" uuid primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" json,
-    "sequence" bigint,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
-);
-    end if;
-end
-$$;
-
@@ -159,3 +126,2 @@
-    insert into "public"."outbox" ("id", "aggregatetype", "aggregateid", "type", "payload", "sequence")
-    values (
-        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
+    perform pg_logical_emit_message(
+        true, 'cdc-outbox:"public"."outbox"', cast(json_build_object('id', beat.id, 'aggregatetype', 'heartbeat.' || pipeline, 'aggregateid', pipeline, 'type', 'Heartbeat', 'payload', content, 'sequence', beat.number, 'source', pipeline, 'created_at', cast(extract(epoch from at) * 1000000 as bigint), 'traceparent', null, 'tracestate', null) as text)
@@ -163,2 +128,0 @@
-    -- The publication has inserts only: what is left would be for `prune` to clear away.
-    delete from "public"."outbox" where "id" = beat.id;
@@ -174,22 +137,0 @@
-    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
-    if not exists (
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'traceparent'
-    ) then
-        alter table "public"."outbox" add column "traceparent" text;
-    end if;
-end
-$$;
-
-do $$
-begin
-    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
-    if not exists (
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'tracestate'
-    ) then
-        alter table "public"."outbox" add column "tracestate" text;
-    end if;
-end
-$$;
-
-do $$
-begin
@@ -197,11 +139 @@
-        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
-    else
-        if false and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then
-            alter publication "orders_outbox" set (publish_via_partition_root = true);
-        end if;
-        if not exists (
-            select from pg_publication_tables
-            where pubname = 'orders_outbox' and schemaname = 'public' and tablename = 'outbox'
-        ) then
-            alter publication "orders_outbox" add table "public"."outbox";
-        end if;
+        create publication "orders_outbox" with (publish = 'insert');

== payload_type: bytes
@@ -34 +34 @@
-    "payload" json,
+    "payload" bytea,
@@ -110 +110 @@
-    "payload" json,
+    "payload" bytea,
@@ -161 +161 @@
-        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
+        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', convert_to(content, 'UTF8'), beat.number

== payload_type: bytes, mode: delete
@@ -34 +34 @@
-    "payload" json,
+    "payload" bytea,
@@ -110 +110 @@
-    "payload" json,
+    "payload" bytea,
@@ -161 +161 @@
-        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
+        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', convert_to(content, 'UTF8'), beat.number

== format: cloudevents-structured
@@ -38,0 +39 @@
+    "content_type" text,
@@ -114,0 +116 @@
+    "content_type" text,
@@ -195,0 +198,11 @@
+    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
+    if not exists (
+        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'content_type'
+    ) then
+        alter table "public"."outbox" add column "content_type" text;
+    end if;
+end
+$$;
+
+do $$
+begin

== format: cloudevents-binary
@@ -38,0 +39,3 @@
+    "ce_specversion" text,
+    "ce_time" text,
+    "content_type" text,
@@ -114,0 +118,3 @@
+    "ce_specversion" text,
+    "ce_time" text,
+    "content_type" text,
@@ -195,0 +202,33 @@
+    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
+    if not exists (
+        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'ce_specversion'
+    ) then
+        alter table "public"."outbox" add column "ce_specversion" text;
+    end if;
+end
+$$;
+
+do $$
+begin
+    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
+    if not exists (
+        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'ce_time'
+    ) then
+        alter table "public"."outbox" add column "ce_time" text;
+    end if;
+end
+$$;
+
+do $$
+begin
+    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
+    if not exists (
+        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'content_type'
+    ) then
+        alter table "public"."outbox" add column "content_type" text;
+    end if;
+end
+$$;
+
+do $$
+begin

== format: envelope, payload_type: expanded

== headers: {tenant: tenant-id, kind: kind}
@@ -38,0 +39,2 @@
+    "tenant" text,
+    "kind" text,
@@ -114,0 +117,2 @@
+    "tenant" text,
+    "kind" text,
@@ -195,0 +200,22 @@
+    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
+    if not exists (
+        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'tenant'
+    ) then
+        alter table "public"."outbox" add column "tenant" text;
+    end if;
+end
+$$;
+
+do $$
+begin
+    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
+    if not exists (
+        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'kind'
+    ) then
+        alter table "public"."outbox" add column "kind" text;
+    end if;
+end
+$$;
+
+do $$
+begin

== columns: {payload: body}
@@ -6 +6 @@
--- outbox public.outbox
+-- heads public.outbox_heads
@@ -27,13 +26,0 @@
-);
-
-create table if not exists "public"."outbox" (
-    "id" uuid primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" json,
-    "sequence" bigint,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
@@ -81,10 +67,0 @@
--- The heartbeats of the last day: a database that went back to an older state shows it at the first look.
-create table if not exists "public"."outbox_heartbeats" (
-    number bigint primary key,
-    id uuid not null unique,
-    previous uuid,
-    written_at timestamptz not null,
-    lsn pg_lsn not null,
-    system text not null
-);
-
@@ -92 +69 @@
-values ('outbox public.outbox', 1)
+values ('heads public.outbox_heads', 1)
@@ -100,93 +76,0 @@
-
-do $$
--- An outbox that was made for messages has none.
-begin
-    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
-create table if not exists "public"."outbox" (
-    "id" uuid primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" json,
-    "sequence" bigint,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
-);
-    end if;
-end
-$$;
-
-create or replace function "public"."outbox_heartbeat"(pipeline text, pause interval default '1 minute') returns bigint
-language plpgsql volatile security definer
-set search_path = pg_catalog, pg_temp
--- Who waits for a row here lets the connector wait.
-set lock_timeout = '5s'
-as $$
-declare
-    at timestamptz := clock_timestamp();
-    last "public"."outbox_heartbeats";
-    beat "public"."outbox_heartbeats";
-    content text;
-begin
-    select * into last from "public"."outbox_heartbeats" order by number desc limit 1;
-    -- One is due once a minute, where the clock went back, after a start of the server, and at a session's first call:
-    -- pg_stat_activity would show a definer nothing of the session.
-    if last.written_at between at - pause and at
-        and last.written_at >= pg_postmaster_start_time()
-        and coalesce(current_setting('cdc_outbox.heartbeat', true), '') <> ''
-    then
-        perform pg_logical_emit_message(false, 'cdc-outbox.heartbeat', '');
-        return null;
-    end if;
-    insert into "public"."outbox_heartbeats" (number, id, previous, written_at, lsn, system)
-    values (
-        coalesce(last.number, 0) + 1, gen_random_uuid(), last.id, at, pg_current_wal_insert_lsn(),
-        (select cast(system_identifier as text) from pg_control_system())
-    )
-    on conflict do nothing
-    returning * into beat;
-    if beat.number is null then  -- another session was faster
-        return null;
-    end if;
-    perform set_config('cdc_outbox.heartbeat', 'written', false);
-    content := json_build_object(
-        'number', beat.number, 'previous', beat.previous, 'at', beat.written_at, 'lsn', beat.lsn,
-        'started', pg_postmaster_start_time(), 'system', beat.system,
-        'timeline', (select timeline_id from pg_control_checkpoint())
-    );
-    insert into "public"."outbox" ("id", "aggregatetype", "aggregateid", "type", "payload", "sequence")
-    values (
-        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
-    );
-    -- The publication has inserts only: what is left would be for `prune` to clear away.
-    delete from "public"."outbox" where "id" = beat.id;
-    delete from "public"."outbox_heartbeats" where written_at < at - interval '1 day' and number < beat.number;
-    return beat.number;
-end
-$$;
-
-revoke all on function "public"."outbox_heartbeat"(text, interval) from public;
-
-do $$
-begin
-    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
-    if not exists (
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'traceparent'
-    ) then
-        alter table "public"."outbox" add column "traceparent" text;
-    end if;
-end
-$$;
-
-do $$
-begin
-    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
-    if not exists (
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'tracestate'
-    ) then
-        alter table "public"."outbox" add column "tracestate" text;
-    end if;
-end
-$$;

== columns: {payload: body, sequence: null, source: null}
@@ -1,213 +1,4 @@
-begin;
-
-set local search_path = pg_catalog, pg_temp;
-set local row_security = off;
-
--- outbox public.outbox
-
-select
-    pg_catalog.set_config('cdc_outbox.search_path', pg_catalog.current_setting('search_path'), true),
-    pg_catalog.set_config('cdc_outbox.row_security', pg_catalog.current_setting('row_security'), true);
-
--- A role that may create functions in a schema of the search path could have the role that runs this call them.
-set local search_path = pg_catalog, pg_temp;
-
--- Rows that a policy hides would be taken for none; this makes an error of it.
-set local row_security = off;
-
-select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('cdc-outbox upgrade', 0));
-
--- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
-set local lock_timeout = '5s';
-
-create table if not exists "public"."cdc_outbox_version" (
-    component text collate "C" primary key,
-    version integer not null check (version > 0),
-    upgraded_at timestamptz not null default clock_timestamp()
-);
-
-create table if not exists "public"."outbox" (
-    "id" uuid primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" json,
-    "sequence" bigint,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
-);
-
-create table if not exists "public"."outbox_heads" (
-    source text collate "C" not null default 'orders.1',
-    aggregatetype text collate "C" not null,
-    aggregateid text collate "C" not null,
-    last bigint not null check (last > 0),
-    primary key (source, aggregatetype, aggregateid)
-);
-
--- By itself, because SQLAlchemy's `create_all` makes the heads of an outbox for messages, and knows no such settings.
--- A head is updated with every event. Free space on its page keeps the update there and out of the index; the versions
--- that updates leave are cleared after one update in fifty rows, by default it is one in five.
-alter table "public"."outbox_heads" set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
-
--- A transaction's number means nothing on another server, where a dump may bring it.
-create table if not exists "public"."outbox_checkpoints" (
-    number bigint generated always as identity primary key,
-    system text not null default cast((pg_control_system()).system_identifier as text),
-    slot text collate "C" not null,
-    reader text collate "C" not null,
-    position pg_lsn not null,
-    oldest bigint not null,
-    taken_at timestamptz not null,
-    ends jsonb,
-    compared boolean not null default false
-);
-
--- Who may publish the outbox: one row, none before the first publisher.
-create table if not exists "public"."outbox_publishers" (
-    single boolean primary key default true check (single),
-    publisher text collate "C" not null check (publisher in ('debezium', 'wal-relay', 'table-relay')),
-    slot text collate "C",
-    epoch bigint not null check (epoch > 0),
-    confirmed pg_lsn,
-    system text not null,
-    timeline integer not null,
-    instance text,
-    seen_at timestamptz not null
-);
-
--- The heartbeats of the last day: a database that went back to an older state shows it at the first look.
-create table if not exists "public"."outbox_heartbeats" (
-    number bigint primary key,
-    id uuid not null unique,
-    previous uuid,
-    written_at timestamptz not null,
-    lsn pg_lsn not null,
-    system text not null
-);
-
-insert into "public"."cdc_outbox_version" as known (component, version)
-values ('outbox public.outbox', 1)
-on conflict (component) do update
-set version = excluded.version, upgraded_at = clock_timestamp()
-where known.version < excluded.version;
-
-select
-    pg_catalog.set_config('search_path', pg_catalog.current_setting('cdc_outbox.search_path', true), true),
-    pg_catalog.set_config('row_security', pg_catalog.current_setting('cdc_outbox.row_security', true), true);
-
-do $$
--- An outbox that was made for messages has none.
-begin
-    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
-create table if not exists "public"."outbox" (
-    "id" uuid primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" json,
-    "sequence" bigint,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
-);
-    end if;
-end
-$$;
-
-create or replace function "public"."outbox_heartbeat"(pipeline text, pause interval default '1 minute') returns bigint
-language plpgsql volatile security definer
-set search_path = pg_catalog, pg_temp
--- Who waits for a row here lets the connector wait.
-set lock_timeout = '5s'
-as $$
-declare
-    at timestamptz := clock_timestamp();
-    last "public"."outbox_heartbeats";
-    beat "public"."outbox_heartbeats";
-    content text;
-begin
-    select * into last from "public"."outbox_heartbeats" order by number desc limit 1;
-    -- One is due once a minute, where the clock went back, after a start of the server, and at a session's first call:
-    -- pg_stat_activity would show a definer nothing of the session.
-    if last.written_at between at - pause and at
-        and last.written_at >= pg_postmaster_start_time()
-        and coalesce(current_setting('cdc_outbox.heartbeat', true), '') <> ''
-    then
-        perform pg_logical_emit_message(false, 'cdc-outbox.heartbeat', '');
-        return null;
-    end if;
-    insert into "public"."outbox_heartbeats" (number, id, previous, written_at, lsn, system)
-    values (
-        coalesce(last.number, 0) + 1, gen_random_uuid(), last.id, at, pg_current_wal_insert_lsn(),
-        (select cast(system_identifier as text) from pg_control_system())
-    )
-    on conflict do nothing
-    returning * into beat;
-    if beat.number is null then  -- another session was faster
-        return null;
-    end if;
-    perform set_config('cdc_outbox.heartbeat', 'written', false);
-    content := json_build_object(
-        'number', beat.number, 'previous', beat.previous, 'at', beat.written_at, 'lsn', beat.lsn,
-        'started', pg_postmaster_start_time(), 'system', beat.system,
-        'timeline', (select timeline_id from pg_control_checkpoint())
-    );
-    insert into "public"."outbox" ("id", "aggregatetype", "aggregateid", "type", "payload", "sequence")
-    values (
-        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
-    );
-    -- The publication has inserts only: what is left would be for `prune` to clear away.
-    delete from "public"."outbox" where "id" = beat.id;
-    delete from "public"."outbox_heartbeats" where written_at < at - interval '1 day' and number < beat.number;
-    return beat.number;
-end
-$$;
-
-revoke all on function "public"."outbox_heartbeat"(text, interval) from public;
-
-do $$
-begin
-    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
-    if not exists (
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'traceparent'
-    ) then
-        alter table "public"."outbox" add column "traceparent" text;
-    end if;
-end
-$$;
-
-do $$
-begin
-    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
-    if not exists (
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'tracestate'
-    ) then
-        alter table "public"."outbox" add column "tracestate" text;
-    end if;
-end
-$$;
-
-do $$
-begin
-    if not exists (select from pg_publication where pubname = 'orders_outbox') then
-        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
-    else
-        if false and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then
-            alter publication "orders_outbox" set (publish_via_partition_root = true);
-        end if;
-        if not exists (
-            select from pg_publication_tables
-            where pubname = 'orders_outbox' and schemaname = 'public' and tablename = 'outbox'
-        ) then
-            alter publication "orders_outbox" add table "public"."outbox";
-        end if;
-    end if;
-end
-$$;
-
-commit;
-exit 0
+x.yaml:10 aggregates.customer: error SP107: 'customer' is numbered (gapless), but the outbox has no column for the sequence or the source. Write `sequence: none`, or name both columns in outbox.columns.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== partitions: day
@@ -40 +40,4 @@
-);
+)
+partition by range ("id");
+
+create table if not exists "public"."outbox_rest" partition of "public"."outbox" default;
@@ -104 +107 @@
-    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
+    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox_rest"') is null then
@@ -116 +119,3 @@
-);
+)
+partition by range ("id");
+create table if not exists "public"."outbox_rest" partition of "public"."outbox" default;
@@ -197 +202 @@
-        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
+        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert', publish_via_partition_root = true);
@@ -199 +204 @@
-        if false and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then
+        if true and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then

== partitions: month, payload_type: bytes
@@ -34 +34 @@
-    "payload" json,
+    "payload" bytea,
@@ -40 +40,4 @@
-);
+)
+partition by range ("id");
+
+create table if not exists "public"."outbox_rest" partition of "public"."outbox" default;
@@ -104 +107 @@
-    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
+    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox_rest"') is null then
@@ -110 +113 @@
-    "payload" json,
+    "payload" bytea,
@@ -116 +119,3 @@
-);
+)
+partition by range ("id");
+create table if not exists "public"."outbox_rest" partition of "public"."outbox" default;
@@ -161 +166 @@
-        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', cast(content as json), beat.number
+        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', convert_to(content, 'UTF8'), beat.number
@@ -197 +202 @@
-        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
+        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert', publish_via_partition_root = true);
@@ -199 +204 @@
-        if false and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then
+        if true and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then

== schema: Größe, table: "a.b c"
@@ -6 +6 @@
--- outbox public.outbox
+-- outbox Größe.a.b c
@@ -23 +23 @@
-create table if not exists "public"."cdc_outbox_version" (
+create table if not exists "Größe"."cdc_outbox_version" (
@@ -29 +29 @@
-create table if not exists "public"."outbox" (
+create table if not exists "Größe"."a.b c" (
@@ -42 +42 @@
-create table if not exists "public"."outbox_heads" (
+create table if not exists "Größe"."a.b c_heads" (
@@ -53 +53 @@
-alter table "public"."outbox_heads" set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
+alter table "Größe"."a.b c_heads" set (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
@@ -56 +56 @@
-create table if not exists "public"."outbox_checkpoints" (
+create table if not exists "Größe"."a.b c_checkpoints" (
@@ -69 +69 @@
-create table if not exists "public"."outbox_publishers" (
+create table if not exists "Größe"."a.b c_publishers" (
@@ -82 +82 @@
-create table if not exists "public"."outbox_heartbeats" (
+create table if not exists "Größe"."a.b c_heartbeats" (
@@ -91,2 +91,2 @@
-insert into "public"."cdc_outbox_version" as known (component, version)
-values ('outbox public.outbox', 1)
+insert into "Größe"."cdc_outbox_version" as known (component, version)
+values ('outbox Größe.a.b c', 1)
@@ -104,2 +104,2 @@
-    if to_regclass('"public"."outbox"') is null or to_regclass('"public"."outbox"') is null then
-create table if not exists "public"."outbox" (
+    if to_regclass('"Größe"."a.b c"') is null or to_regclass('"Größe"."a.b c"') is null then
+create table if not exists "Größe"."a.b c" (
@@ -121 +121 @@
-create or replace function "public"."outbox_heartbeat"(pipeline text, pause interval default '1 minute') returns bigint
+create or replace function "Größe"."a.b c_heartbeat"(pipeline text, pause interval default '1 minute') returns bigint
@@ -129,2 +129,2 @@
-    last "public"."outbox_heartbeats";
-    beat "public"."outbox_heartbeats";
+    last "Größe"."a.b c_heartbeats";
+    beat "Größe"."a.b c_heartbeats";
@@ -133 +133 @@
-    select * into last from "public"."outbox_heartbeats" order by number desc limit 1;
+    select * into last from "Größe"."a.b c_heartbeats" order by number desc limit 1;
@@ -143 +143 @@
-    insert into "public"."outbox_heartbeats" (number, id, previous, written_at, lsn, system)
+    insert into "Größe"."a.b c_heartbeats" (number, id, previous, written_at, lsn, system)
@@ -159 +159 @@
-    insert into "public"."outbox" ("id", "aggregatetype", "aggregateid", "type", "payload", "sequence")
+    insert into "Größe"."a.b c" ("id", "aggregatetype", "aggregateid", "type", "payload", "sequence")
@@ -164,2 +164,2 @@
-    delete from "public"."outbox" where "id" = beat.id;
-    delete from "public"."outbox_heartbeats" where written_at < at - interval '1 day' and number < beat.number;
+    delete from "Größe"."a.b c" where "id" = beat.id;
+    delete from "Größe"."a.b c_heartbeats" where written_at < at - interval '1 day' and number < beat.number;
@@ -170 +170 @@
-revoke all on function "public"."outbox_heartbeat"(text, interval) from public;
+revoke all on function "Größe"."a.b c_heartbeat"(text, interval) from public;
@@ -176 +176 @@
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'traceparent'
+        select from pg_attribute where attrelid = to_regclass('"Größe"."a.b c"') and attname = 'traceparent'
@@ -178 +178 @@
-        alter table "public"."outbox" add column "traceparent" text;
+        alter table "Größe"."a.b c" add column "traceparent" text;
@@ -187 +187 @@
-        select from pg_attribute where attrelid = to_regclass('"public"."outbox"') and attname = 'tracestate'
+        select from pg_attribute where attrelid = to_regclass('"Größe"."a.b c"') and attname = 'tracestate'
@@ -189 +189 @@
-        alter table "public"."outbox" add column "tracestate" text;
+        alter table "Größe"."a.b c" add column "tracestate" text;
@@ -197 +197 @@
-        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
+        create publication "orders_outbox" for table "Größe"."a.b c" with (publish = 'insert');
@@ -204 +204 @@
-            where pubname = 'orders_outbox' and schemaname = 'public' and tablename = 'outbox'
+            where pubname = 'orders_outbox' and schemaname = 'Größe' and tablename = 'a.b c'
@@ -206 +206 @@
-            alter publication "orders_outbox" add table "public"."outbox";
+            alter publication "orders_outbox" add table "Größe"."a.b c";

== not numbered

== a publication
@@ -196,2 +196,2 @@
-    if not exists (select from pg_publication where pubname = 'orders_outbox') then
-        create publication "orders_outbox" for table "public"."outbox" with (publish = 'insert');
+    if not exists (select from pg_publication where pubname = 'P') then
+        create publication "P" for table "public"."outbox" with (publish = 'insert');
@@ -199,2 +199,2 @@
-        if false and not (select pubviaroot from pg_publication where pubname = 'orders_outbox') then
-            alter publication "orders_outbox" set (publish_via_partition_root = true);
+        if false and not (select pubviaroot from pg_publication where pubname = 'P') then
+            alter publication "P" set (publish_via_partition_root = true);
@@ -204 +204 @@
-            where pubname = 'orders_outbox' and schemaname = 'public' and tablename = 'outbox'
+            where pubname = 'P' and schemaname = 'public' and tablename = 'outbox'
@@ -206 +206 @@
-            alter publication "orders_outbox" add table "public"."outbox";
+            alter publication "P" add table "public"."outbox";
