-- For the service's database.

-- Set the passwords; until then the users are locked: alter user … identified by '…' account unlock.

-- orders_writer: the service. It adds and numbers events; it neither changes nor deletes them.
create user if not exists 'orders_writer'@'%' account lock;
grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`) on `outbox` to 'orders_writer'@'%';
grant select, insert, update (`aggregatetype`, `aggregateid`, `last`) on `outbox_heads` to 'orders_writer'@'%';

-- orders_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
create user if not exists 'orders_consumer'@'%' account lock;
grant select, insert, delete on `inbox` to 'orders_consumer'@'%';
grant select, insert, update on `inbox_watermarks` to 'orders_consumer'@'%';
grant select, insert, update, delete on `inbox_parked` to 'orders_consumer'@'%';
grant select, insert on `inbox_holes` to 'orders_consumer'@'%';
grant select, insert, update on `inbox_epochs` to 'orders_consumer'@'%';
grant select, insert, update, delete on `inbox_starts` to 'orders_consumer'@'%';
grant select on `inbox_purges` to 'orders_consumer'@'%';

-- orders_connector: Debezium. It reads the log, and reads the rows only to publish them again.
create user if not exists 'orders_connector'@'%' account lock;
grant replication slave, replication client on *.* to 'orders_connector'@'%';
grant select on `outbox` to 'orders_connector'@'%';

-- orders_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
create user if not exists 'orders_migrator'@'%' account lock;
grant create, alter, references on `outbox` to 'orders_migrator'@'%';
grant create, alter, references on `outbox_heads` to 'orders_migrator'@'%';
grant create, select, insert, update on `cdc_outbox_version` to 'orders_migrator'@'%';
grant create, alter, references on `inbox` to 'orders_migrator'@'%';
grant create, alter, references on `inbox_watermarks` to 'orders_migrator'@'%';
grant create, alter, references on `inbox_parked` to 'orders_migrator'@'%';
grant create, alter, references on `inbox_holes` to 'orders_migrator'@'%';
grant create, alter, references on `inbox_epochs` to 'orders_migrator'@'%';
grant create, alter, references on `inbox_starts` to 'orders_migrator'@'%';
grant create, alter, references on `inbox_purges` to 'orders_migrator'@'%';
exit 0

== mode: delete
@@ -7 +7 @@
-grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`) on `outbox` to 'orders_writer'@'%';
+grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`), delete on `outbox` to 'orders_writer'@'%';

== mode: message
@@ -1,37 +1,4 @@
--- For the service's database.
-
--- Set the passwords; until then the users are locked: alter user … identified by '…' account unlock.
-
--- orders_writer: the service. It adds and numbers events; it neither changes nor deletes them.
-create user if not exists 'orders_writer'@'%' account lock;
-grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`) on `outbox` to 'orders_writer'@'%';
-grant select, insert, update (`aggregatetype`, `aggregateid`, `last`) on `outbox_heads` to 'orders_writer'@'%';
-
--- orders_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
-create user if not exists 'orders_consumer'@'%' account lock;
-grant select, insert, delete on `inbox` to 'orders_consumer'@'%';
-grant select, insert, update on `inbox_watermarks` to 'orders_consumer'@'%';
-grant select, insert, update, delete on `inbox_parked` to 'orders_consumer'@'%';
-grant select, insert on `inbox_holes` to 'orders_consumer'@'%';
-grant select, insert, update on `inbox_epochs` to 'orders_consumer'@'%';
-grant select, insert, update, delete on `inbox_starts` to 'orders_consumer'@'%';
-grant select on `inbox_purges` to 'orders_consumer'@'%';
-
--- orders_connector: Debezium. It reads the log, and reads the rows only to publish them again.
-create user if not exists 'orders_connector'@'%' account lock;
-grant replication slave, replication client on *.* to 'orders_connector'@'%';
-grant select on `outbox` to 'orders_connector'@'%';
-
--- orders_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
-create user if not exists 'orders_migrator'@'%' account lock;
-grant create, alter, references on `outbox` to 'orders_migrator'@'%';
-grant create, alter, references on `outbox_heads` to 'orders_migrator'@'%';
-grant create, select, insert, update on `cdc_outbox_version` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_watermarks` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_parked` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_holes` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_epochs` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_starts` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_purges` to 'orders_migrator'@'%';
-exit 0
+x.yaml:11 outbox.mode: error SP107: mariadb has no logical messages.
+error: x.yaml is not a valid spec
+hint: Correct the spec.
+exit 2

== payload_type: bytes

== payload_type: bytes, mode: delete
@@ -7 +7 @@
-grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`) on `outbox` to 'orders_writer'@'%';
+grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`), delete on `outbox` to 'orders_writer'@'%';

== other names
@@ -5,4 +5,4 @@
--- orders_writer: the service. It adds and numbers events; it neither changes nor deletes them.
-create user if not exists 'orders_writer'@'%' account lock;
-grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`) on `outbox` to 'orders_writer'@'%';
-grant select, insert, update (`aggregatetype`, `aggregateid`, `last`) on `outbox_heads` to 'orders_writer'@'%';
+-- my_writer: the service. It adds and numbers events; it neither changes nor deletes them.
+create user if not exists 'my_writer'@'%' account lock;
+grant insert, select (`id`, `aggregatetype`, `aggregateid`, `type`, `payload`, `sequence`, `source`, `created_at`, `traceparent`, `tracestate`) on `outbox` to 'my_writer'@'%';
+grant select, insert, update (`aggregatetype`, `aggregateid`, `last`) on `outbox_heads` to 'my_writer'@'%';
@@ -10,9 +10,9 @@
--- orders_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
-create user if not exists 'orders_consumer'@'%' account lock;
-grant select, insert, delete on `inbox` to 'orders_consumer'@'%';
-grant select, insert, update on `inbox_watermarks` to 'orders_consumer'@'%';
-grant select, insert, update, delete on `inbox_parked` to 'orders_consumer'@'%';
-grant select, insert on `inbox_holes` to 'orders_consumer'@'%';
-grant select, insert, update on `inbox_epochs` to 'orders_consumer'@'%';
-grant select, insert, update, delete on `inbox_starts` to 'orders_consumer'@'%';
-grant select on `inbox_purges` to 'orders_consumer'@'%';
+-- my_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
+create user if not exists 'my_consumer'@'%' account lock;
+grant select, insert, delete on `inbox` to 'my_consumer'@'%';
+grant select, insert, update on `inbox_watermarks` to 'my_consumer'@'%';
+grant select, insert, update, delete on `inbox_parked` to 'my_consumer'@'%';
+grant select, insert on `inbox_holes` to 'my_consumer'@'%';
+grant select, insert, update on `inbox_epochs` to 'my_consumer'@'%';
+grant select, insert, update, delete on `inbox_starts` to 'my_consumer'@'%';
+grant select on `inbox_purges` to 'my_consumer'@'%';
@@ -20,4 +20,4 @@
--- orders_connector: Debezium. It reads the log, and reads the rows only to publish them again.
-create user if not exists 'orders_connector'@'%' account lock;
-grant replication slave, replication client on *.* to 'orders_connector'@'%';
-grant select on `outbox` to 'orders_connector'@'%';
+-- my_connector: Debezium. It reads the log, and reads the rows only to publish them again.
+create user if not exists 'my_connector'@'%' account lock;
+grant replication slave, replication client on *.* to 'my_connector'@'%';
+grant select on `outbox` to 'my_connector'@'%';
@@ -25,12 +25,12 @@
--- orders_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
-create user if not exists 'orders_migrator'@'%' account lock;
-grant create, alter, references on `outbox` to 'orders_migrator'@'%';
-grant create, alter, references on `outbox_heads` to 'orders_migrator'@'%';
-grant create, select, insert, update on `cdc_outbox_version` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_watermarks` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_parked` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_holes` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_epochs` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_starts` to 'orders_migrator'@'%';
-grant create, alter, references on `inbox_purges` to 'orders_migrator'@'%';
+-- my_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
+create user if not exists 'my_migrator'@'%' account lock;
+grant create, alter, references on `outbox` to 'my_migrator'@'%';
+grant create, alter, references on `outbox_heads` to 'my_migrator'@'%';
+grant create, select, insert, update on `cdc_outbox_version` to 'my_migrator'@'%';
+grant create, alter, references on `inbox` to 'my_migrator'@'%';
+grant create, alter, references on `inbox_watermarks` to 'my_migrator'@'%';
+grant create, alter, references on `inbox_parked` to 'my_migrator'@'%';
+grant create, alter, references on `inbox_holes` to 'my_migrator'@'%';
+grant create, alter, references on `inbox_epochs` to 'my_migrator'@'%';
+grant create, alter, references on `inbox_starts` to 'my_migrator'@'%';
+grant create, alter, references on `inbox_purges` to 'my_migrator'@'%';
