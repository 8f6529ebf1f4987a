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

== mode: delete

== mode: message
@@ -1,78 +1,4 @@
--- For the service's database.
-
--- outbox outbox
-
-select get_lock('cdc-outbox upgrade', 60);
-
--- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
-set session lock_wait_timeout = 5;
-
-create table if not exists `cdc_outbox_version` (
-    component varchar(255) not null primary key,
-    version integer not null check (version >= 0),
-    upgraded_at datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox` (
-    `id` char(36) character set ascii collate ascii_bin not null primary key,
-    `aggregatetype` varchar(249) not null,
-    `aggregateid` varchar(1000) not null,
-    `type` varchar(249) not null,
-    `payload` json,
-    `sequence` bigint,
-    `source` varchar(255) not null default 'orders.1',
-    `traceparent` longtext,
-    `tracestate` longtext,
-    `created_at` datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox_heads` (
-    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
-    -- 1,504 bytes and its lengths, of 3,072.
-    source varbinary(255) not null default 'orders.1',
-    aggregatetype varbinary(249) not null,
-    aggregateid varbinary(1000) not null,
-    last bigint not null check (last >= 0),
-    primary key (source, aggregatetype, aggregateid)
-) engine = InnoDB row_format = dynamic;
-
-insert into `cdc_outbox_version` (component, version)
-values ('outbox outbox', 1)
-on duplicate key update
-    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
-    version = greatest(version, 1);
-
-select release_lock('cdc-outbox upgrade');
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
-    ),
-    'do 0',
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
-    ),
-    'do 0',
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-exit 0
+x.yaml:11 outbox.mode: error SP107: mariadb has no logical messages.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== payload_type: bytes
@@ -21 +21 @@
-    `payload` json,
+    `payload` longblob,

== payload_type: bytes, mode: delete
@@ -21 +21 @@
-    `payload` json,
+    `payload` longblob,

== format: cloudevents-structured
@@ -25,0 +26 @@
+    `content_type` longtext,
@@ -77,0 +79,16 @@
+
+-- What MariaDB alone knows as `add column if not exists`.
+set @add_header_column = if(
+    exists (
+        select * from information_schema.columns
+        where table_schema = database() and table_name = 'outbox' and column_name = 'content_type'
+    ),
+    'do 0',
+    'alter table `outbox` add column `content_type` longtext character set utf8mb4 collate utf8mb4_bin'
+);
+
+prepare add_header_column from @add_header_column;
+
+execute add_header_column;
+
+deallocate prepare add_header_column;

== format: cloudevents-binary
@@ -25,0 +26,3 @@
+    `ce_specversion` longtext,
+    `ce_time` longtext,
+    `content_type` longtext,
@@ -77,0 +81,48 @@
+
+-- What MariaDB alone knows as `add column if not exists`.
+set @add_header_column = if(
+    exists (
+        select * from information_schema.columns
+        where table_schema = database() and table_name = 'outbox' and column_name = 'ce_specversion'
+    ),
+    'do 0',
+    'alter table `outbox` add column `ce_specversion` longtext character set utf8mb4 collate utf8mb4_bin'
+);
+
+prepare add_header_column from @add_header_column;
+
+execute add_header_column;
+
+deallocate prepare add_header_column;
+
+-- What MariaDB alone knows as `add column if not exists`.
+set @add_header_column = if(
+    exists (
+        select * from information_schema.columns
+        where table_schema = database() and table_name = 'outbox' and column_name = 'ce_time'
+    ),
+    'do 0',
+    'alter table `outbox` add column `ce_time` longtext character set utf8mb4 collate utf8mb4_bin'
+);
+
+prepare add_header_column from @add_header_column;
+
+execute add_header_column;
+
+deallocate prepare add_header_column;
+
+-- What MariaDB alone knows as `add column if not exists`.
+set @add_header_column = if(
+    exists (
+        select * from information_schema.columns
+        where table_schema = database() and table_name = 'outbox' and column_name = 'content_type'
+    ),
+    'do 0',
+    'alter table `outbox` add column `content_type` longtext character set utf8mb4 collate utf8mb4_bin'
+);
+
+prepare add_header_column from @add_header_column;
+
+execute add_header_column;
+
+deallocate prepare add_header_column;

== format: envelope, payload_type: expanded

== headers: {tenant: tenant-id, kind: kind}
@@ -25,0 +26,2 @@
+    `tenant` longtext,
+    `kind` longtext,
@@ -77,0 +80,32 @@
+
+-- What MariaDB alone knows as `add column if not exists`.
+set @add_header_column = if(
+    exists (
+        select * from information_schema.columns
+        where table_schema = database() and table_name = 'outbox' and column_name = 'tenant'
+    ),
+    'do 0',
+    'alter table `outbox` add column `tenant` longtext character set utf8mb4 collate utf8mb4_bin'
+);
+
+prepare add_header_column from @add_header_column;
+
+execute add_header_column;
+
+deallocate prepare add_header_column;
+
+-- What MariaDB alone knows as `add column if not exists`.
+set @add_header_column = if(
+    exists (
+        select * from information_schema.columns
+        where table_schema = database() and table_name = 'outbox' and column_name = 'kind'
+    ),
+    'do 0',
+    'alter table `outbox` add column `kind` longtext character set utf8mb4 collate utf8mb4_bin'
+);
+
+prepare add_header_column from @add_header_column;
+
+execute add_header_column;
+
+deallocate prepare add_header_column;

== columns: {payload: body}
@@ -3 +3 @@
--- outbox outbox
+-- heads outbox_heads
@@ -14,13 +13,0 @@
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox` (
-    `id` char(36) character set ascii collate ascii_bin not null primary key,
-    `aggregatetype` varchar(249) not null,
-    `aggregateid` varchar(1000) not null,
-    `type` varchar(249) not null,
-    `payload` json,
-    `sequence` bigint,
-    `source` varchar(255) not null default 'orders.1',
-    `traceparent` longtext,
-    `tracestate` longtext,
-    `created_at` datetime(6) not null default (utc_timestamp(6))
@@ -40 +27 @@
-values ('outbox outbox', 1)
+values ('heads outbox_heads', 1)
@@ -46,32 +32,0 @@
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
-    ),
-    'do 0',
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
-    ),
-    'do 0',
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;

== columns: {payload: body, sequence: null, source: null}
@@ -1,78 +1,4 @@
--- For the service's database.
-
--- outbox outbox
-
-select get_lock('cdc-outbox upgrade', 60);
-
--- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
-set session lock_wait_timeout = 5;
-
-create table if not exists `cdc_outbox_version` (
-    component varchar(255) not null primary key,
-    version integer not null check (version >= 0),
-    upgraded_at datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox` (
-    `id` char(36) character set ascii collate ascii_bin not null primary key,
-    `aggregatetype` varchar(249) not null,
-    `aggregateid` varchar(1000) not null,
-    `type` varchar(249) not null,
-    `payload` json,
-    `sequence` bigint,
-    `source` varchar(255) not null default 'orders.1',
-    `traceparent` longtext,
-    `tracestate` longtext,
-    `created_at` datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox_heads` (
-    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
-    -- 1,504 bytes and its lengths, of 3,072.
-    source varbinary(255) not null default 'orders.1',
-    aggregatetype varbinary(249) not null,
-    aggregateid varbinary(1000) not null,
-    last bigint not null check (last >= 0),
-    primary key (source, aggregatetype, aggregateid)
-) engine = InnoDB row_format = dynamic;
-
-insert into `cdc_outbox_version` (component, version)
-values ('outbox outbox', 1)
-on duplicate key update
-    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
-    version = greatest(version, 1);
-
-select release_lock('cdc-outbox upgrade');
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
-    ),
-    'do 0',
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
-    ),
-    'do 0',
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-exit 0
+x.yaml:10 aggregates.customer: error SP107: 'customer' is numbered (gapless), but the outbox has no column for the sequence or the source. Write `sequence: none`, or name both columns in outbox.columns.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== partitions: day
@@ -1,78 +1,4 @@
--- For the service's database.
-
--- outbox outbox
-
-select get_lock('cdc-outbox upgrade', 60);
-
--- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
-set session lock_wait_timeout = 5;
-
-create table if not exists `cdc_outbox_version` (
-    component varchar(255) not null primary key,
-    version integer not null check (version >= 0),
-    upgraded_at datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox` (
-    `id` char(36) character set ascii collate ascii_bin not null primary key,
-    `aggregatetype` varchar(249) not null,
-    `aggregateid` varchar(1000) not null,
-    `type` varchar(249) not null,
-    `payload` json,
-    `sequence` bigint,
-    `source` varchar(255) not null default 'orders.1',
-    `traceparent` longtext,
-    `tracestate` longtext,
-    `created_at` datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox_heads` (
-    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
-    -- 1,504 bytes and its lengths, of 3,072.
-    source varbinary(255) not null default 'orders.1',
-    aggregatetype varbinary(249) not null,
-    aggregateid varbinary(1000) not null,
-    last bigint not null check (last >= 0),
-    primary key (source, aggregatetype, aggregateid)
-) engine = InnoDB row_format = dynamic;
-
-insert into `cdc_outbox_version` (component, version)
-values ('outbox outbox', 1)
-on duplicate key update
-    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
-    version = greatest(version, 1);
-
-select release_lock('cdc-outbox upgrade');
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
-    ),
-    'do 0',
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
-    ),
-    'do 0',
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-exit 0
+x.yaml:11 outbox.partitions: error SP107: only PostgreSQL's outbox can be partitioned.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== partitions: month, payload_type: bytes
@@ -1,78 +1,4 @@
--- For the service's database.
-
--- outbox outbox
-
-select get_lock('cdc-outbox upgrade', 60);
-
--- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
-set session lock_wait_timeout = 5;
-
-create table if not exists `cdc_outbox_version` (
-    component varchar(255) not null primary key,
-    version integer not null check (version >= 0),
-    upgraded_at datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox` (
-    `id` char(36) character set ascii collate ascii_bin not null primary key,
-    `aggregatetype` varchar(249) not null,
-    `aggregateid` varchar(1000) not null,
-    `type` varchar(249) not null,
-    `payload` json,
-    `sequence` bigint,
-    `source` varchar(255) not null default 'orders.1',
-    `traceparent` longtext,
-    `tracestate` longtext,
-    `created_at` datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox_heads` (
-    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
-    -- 1,504 bytes and its lengths, of 3,072.
-    source varbinary(255) not null default 'orders.1',
-    aggregatetype varbinary(249) not null,
-    aggregateid varbinary(1000) not null,
-    last bigint not null check (last >= 0),
-    primary key (source, aggregatetype, aggregateid)
-) engine = InnoDB row_format = dynamic;
-
-insert into `cdc_outbox_version` (component, version)
-values ('outbox outbox', 1)
-on duplicate key update
-    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
-    version = greatest(version, 1);
-
-select release_lock('cdc-outbox upgrade');
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
-    ),
-    'do 0',
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
-    ),
-    'do 0',
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-exit 0
+x.yaml:11 outbox.partitions: error SP107: only PostgreSQL's outbox can be partitioned.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== schema: Größe, table: "a.b c"
@@ -3 +3 @@
--- outbox outbox
+-- outbox Größe.a.b c
@@ -10 +10 @@
-create table if not exists `cdc_outbox_version` (
+create table if not exists `Größe`.`cdc_outbox_version` (
@@ -16 +16 @@
-create table if not exists `outbox` (
+create table if not exists `Größe`.`a.b c` (
@@ -29 +29 @@
-create table if not exists `outbox_heads` (
+create table if not exists `Größe`.`a.b c_heads` (
@@ -39,2 +39,2 @@
-insert into `cdc_outbox_version` (component, version)
-values ('outbox outbox', 1)
+insert into `Größe`.`cdc_outbox_version` (component, version)
+values ('outbox Größe.a.b c', 1)
@@ -51 +51 @@
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
+        where table_schema = 'Größe' and table_name = 'a.b c' and column_name = 'traceparent'
@@ -54 +54 @@
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
+    'alter table `Größe`.`a.b c` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
@@ -67 +67 @@
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
+        where table_schema = 'Größe' and table_name = 'a.b c' and column_name = 'tracestate'
@@ -70 +70 @@
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
+    'alter table `Größe`.`a.b c` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'

== MySQL

== not numbered

== a publication
@@ -1,78 +1,4 @@
--- For the service's database.
-
--- outbox outbox
-
-select get_lock('cdc-outbox upgrade', 60);
-
--- Behind a statement that waits for its lock, every writer waits too. Who meets a long transaction tries again later.
-set session lock_wait_timeout = 5;
-
-create table if not exists `cdc_outbox_version` (
-    component varchar(255) not null primary key,
-    version integer not null check (version >= 0),
-    upgraded_at datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox` (
-    `id` char(36) character set ascii collate ascii_bin not null primary key,
-    `aggregatetype` varchar(249) not null,
-    `aggregateid` varchar(1000) not null,
-    `type` varchar(249) not null,
-    `payload` json,
-    `sequence` bigint,
-    `source` varchar(255) not null default 'orders.1',
-    `traceparent` longtext,
-    `tracestate` longtext,
-    `created_at` datetime(6) not null default (utc_timestamp(6))
-) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;
-
-create table if not exists `outbox_heads` (
-    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
-    -- 1,504 bytes and its lengths, of 3,072.
-    source varbinary(255) not null default 'orders.1',
-    aggregatetype varbinary(249) not null,
-    aggregateid varbinary(1000) not null,
-    last bigint not null check (last >= 0),
-    primary key (source, aggregatetype, aggregateid)
-) engine = InnoDB row_format = dynamic;
-
-insert into `cdc_outbox_version` (component, version)
-values ('outbox outbox', 1)
-on duplicate key update
-    upgraded_at = if(version < 1, utc_timestamp(6), upgraded_at),
-    version = greatest(version, 1);
-
-select release_lock('cdc-outbox upgrade');
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'traceparent'
-    ),
-    'do 0',
-    'alter table `outbox` add column `traceparent` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-
--- What MariaDB alone knows as `add column if not exists`.
-set @add_header_column = if(
-    exists (
-        select * from information_schema.columns
-        where table_schema = database() and table_name = 'outbox' and column_name = 'tracestate'
-    ),
-    'do 0',
-    'alter table `outbox` add column `tracestate` longtext character set utf8mb4 collate utf8mb4_bin'
-);
-
-prepare add_header_column from @add_header_column;
-
-execute add_header_column;
-
-deallocate prepare add_header_column;
-exit 0
+x.yaml:6 database.publication: error SP107: mariadb does not support this key. Remove database.publication.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2
