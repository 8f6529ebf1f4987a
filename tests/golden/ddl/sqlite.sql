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

-- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.

commit;
exit 0

== mode: delete

== mode: message
@@ -1,45 +1,4 @@
-begin immediate;
-
--- outbox main.outbox
-
-create table if not exists "main"."cdc_outbox_version" (
-    component text not null primary key,
-    version integer not null check (version > 0),
-    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
--- Changes nothing, and takes the lock for writing before anything is looked at.
-update "main"."cdc_outbox_version" set version = version where false;
-
-create table if not exists "main"."outbox" (
-    "id" text not null primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" text,
-    "sequence" integer,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
-create table if not exists "main"."outbox_heads" (
-    source text not null default 'orders.1',
-    aggregatetype text not null,
-    aggregateid text not null,
-    last integer not null check (last > 0),
-    event_id text not null,
-    primary key (aggregatetype, aggregateid, source)
-) strict, without rowid;
-
-insert into "main"."cdc_outbox_version" as known (component, version)
-values ('outbox main.outbox', 1)
-on conflict (component) do update
-set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
-where known.version < excluded.version;
-
--- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.
-
-commit;
-exit 0
+x.yaml:6 outbox.mode: error SP107: sqlite has no logical messages.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== payload_type: bytes
@@ -19 +19 @@
-    "payload" text,
+    "payload" blob,

== payload_type: bytes, mode: delete
@@ -19 +19 @@
-    "payload" text,
+    "payload" blob,

== format: cloudevents-structured
@@ -23,0 +24 @@
+    "content_type" text,

== format: cloudevents-binary
@@ -23,0 +24,3 @@
+    "ce_specversion" text,
+    "ce_time" text,
+    "content_type" text,

== format: envelope, payload_type: expanded

== headers: {tenant: tenant-id, kind: kind}
@@ -23,0 +24,2 @@
+    "tenant" text,
+    "kind" text,

== columns: {payload: body}
@@ -3 +3 @@
--- outbox main.outbox
+-- heads main.outbox_heads
@@ -13,13 +12,0 @@
-
-create table if not exists "main"."outbox" (
-    "id" text not null primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" text,
-    "sequence" integer,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
@@ -37 +24 @@
-values ('outbox main.outbox', 1)
+values ('heads main.outbox_heads', 1)

== columns: {payload: body, sequence: null, source: null}
@@ -1,45 +1,4 @@
-begin immediate;
-
--- outbox main.outbox
-
-create table if not exists "main"."cdc_outbox_version" (
-    component text not null primary key,
-    version integer not null check (version > 0),
-    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
--- Changes nothing, and takes the lock for writing before anything is looked at.
-update "main"."cdc_outbox_version" set version = version where false;
-
-create table if not exists "main"."outbox" (
-    "id" text not null primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" text,
-    "sequence" integer,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
-create table if not exists "main"."outbox_heads" (
-    source text not null default 'orders.1',
-    aggregatetype text not null,
-    aggregateid text not null,
-    last integer not null check (last > 0),
-    event_id text not null,
-    primary key (aggregatetype, aggregateid, source)
-) strict, without rowid;
-
-insert into "main"."cdc_outbox_version" as known (component, version)
-values ('outbox main.outbox', 1)
-on conflict (component) do update
-set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
-where known.version < excluded.version;
-
--- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.
-
-commit;
-exit 0
+x.yaml:5 aggregates.customer: error SP107: 'customer' is numbered (gapless), but the outbox has no column for the sequence or the source. Write `sequence: none`, or name both columns in outbox.columns.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== partitions: day
@@ -1,45 +1,4 @@
-begin immediate;
-
--- outbox main.outbox
-
-create table if not exists "main"."cdc_outbox_version" (
-    component text not null primary key,
-    version integer not null check (version > 0),
-    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
--- Changes nothing, and takes the lock for writing before anything is looked at.
-update "main"."cdc_outbox_version" set version = version where false;
-
-create table if not exists "main"."outbox" (
-    "id" text not null primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" text,
-    "sequence" integer,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
-create table if not exists "main"."outbox_heads" (
-    source text not null default 'orders.1',
-    aggregatetype text not null,
-    aggregateid text not null,
-    last integer not null check (last > 0),
-    event_id text not null,
-    primary key (aggregatetype, aggregateid, source)
-) strict, without rowid;
-
-insert into "main"."cdc_outbox_version" as known (component, version)
-values ('outbox main.outbox', 1)
-on conflict (component) do update
-set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
-where known.version < excluded.version;
-
--- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.
-
-commit;
-exit 0
+x.yaml:6 outbox.partitions: error SP107: only PostgreSQL's outbox can be partitioned.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== partitions: month, payload_type: bytes
@@ -1,45 +1,4 @@
-begin immediate;
-
--- outbox main.outbox
-
-create table if not exists "main"."cdc_outbox_version" (
-    component text not null primary key,
-    version integer not null check (version > 0),
-    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
--- Changes nothing, and takes the lock for writing before anything is looked at.
-update "main"."cdc_outbox_version" set version = version where false;
-
-create table if not exists "main"."outbox" (
-    "id" text not null primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" text,
-    "sequence" integer,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
-create table if not exists "main"."outbox_heads" (
-    source text not null default 'orders.1',
-    aggregatetype text not null,
-    aggregateid text not null,
-    last integer not null check (last > 0),
-    event_id text not null,
-    primary key (aggregatetype, aggregateid, source)
-) strict, without rowid;
-
-insert into "main"."cdc_outbox_version" as known (component, version)
-values ('outbox main.outbox', 1)
-on conflict (component) do update
-set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
-where known.version < excluded.version;
-
--- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.
-
-commit;
-exit 0
+x.yaml:6 outbox.partitions: error SP107: only PostgreSQL's outbox can be partitioned.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== schema: Größe, table: "a.b c"
@@ -1,45 +1,4 @@
-begin immediate;
-
--- outbox main.outbox
-
-create table if not exists "main"."cdc_outbox_version" (
-    component text not null primary key,
-    version integer not null check (version > 0),
-    upgraded_at text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
--- Changes nothing, and takes the lock for writing before anything is looked at.
-update "main"."cdc_outbox_version" set version = version where false;
-
-create table if not exists "main"."outbox" (
-    "id" text not null primary key,
-    "aggregatetype" text not null,
-    "aggregateid" text not null,
-    "type" text not null,
-    "payload" text,
-    "sequence" integer,
-    "source" text not null default 'orders.1',
-    "traceparent" text,
-    "tracestate" text,
-    "created_at" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
-) strict;
-
-create table if not exists "main"."outbox_heads" (
-    source text not null default 'orders.1',
-    aggregatetype text not null,
-    aggregateid text not null,
-    last integer not null check (last > 0),
-    event_id text not null,
-    primary key (aggregatetype, aggregateid, source)
-) strict, without rowid;
-
-insert into "main"."cdc_outbox_version" as known (component, version)
-values ('outbox main.outbox', 1)
-on conflict (component) do update
-set version = excluded.version, upgraded_at = strftime('%Y-%m-%dT%H:%M:%f', 'now')
-where known.version < excluded.version;
-
--- `cdc-outbox init` adds header columns to a table in use: this SQL cannot check which ones are missing.
-
-commit;
-exit 0
+x.yaml:6 outbox.schema: error SP107: the only schema of a file is main. Remove it.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== not numbered

== a publication
