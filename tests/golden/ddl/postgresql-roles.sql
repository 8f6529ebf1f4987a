begin;

set local search_path = pg_catalog, pg_temp;
set local row_security = off;

-- Set the passwords yourself: alter role … password '…', or \password in psql.

-- orders_writer: the service. It adds and numbers events; it neither changes nor deletes them.
do $$
begin
    if not exists (select from pg_roles where rolname = 'orders_writer') then
        create role "orders_writer" login;
    end if;
    execute format('grant connect on database %I to %I', current_database(), 'orders_writer');
end
$$;
grant usage on schema "public" to "orders_writer";
grant insert, select ("id", "sequence", "source", "created_at") on "public"."outbox" to "orders_writer";
grant select, insert, update ("last") on "public"."outbox_heads" to "orders_writer";

-- orders_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
do $$
begin
    if not exists (select from pg_roles where rolname = 'orders_consumer') then
        create role "orders_consumer" login;
    end if;
    execute format('grant connect on database %I to %I', current_database(), 'orders_consumer');
end
$$;
grant usage on schema "public" to "orders_consumer";
grant select, insert, delete on "public"."inbox" to "orders_consumer";
grant select, insert, update on "public"."inbox_watermarks" to "orders_consumer";
grant select, insert, update, delete on "public"."inbox_parked" to "orders_consumer";
grant select, insert on "public"."inbox_holes" to "orders_consumer";
grant select, insert, update on "public"."inbox_epochs" to "orders_consumer";
grant select, insert, update, delete on "public"."inbox_starts" to "orders_consumer";
grant select on "public"."inbox_purges" to "orders_consumer";

-- orders_connector: Debezium. It reads the log, and reads the rows only to publish them again.
do $$
begin
    if not exists (select from pg_roles where rolname = 'orders_connector') then
        create role "orders_connector" login replication;
    end if;
    execute format('grant connect on database %I to %I', current_database(), 'orders_connector');
end
$$;
grant usage on schema "public" to "orders_connector";
grant select on "public"."outbox" to "orders_connector";
grant execute on function "public"."outbox_heartbeat"(text, interval) to "orders_connector";

-- orders_relay: the relay. It reads the log, and writes that it publishes the outbox.
do $$
begin
    if not exists (select from pg_roles where rolname = 'orders_relay') then
        create role "orders_relay" login replication;
    end if;
    execute format('grant connect on database %I to %I', current_database(), 'orders_relay');
end
$$;
grant usage on schema "public" to "orders_relay";
grant select on "public"."outbox" to "orders_relay";
grant select on "public"."outbox_heads" to "orders_relay";
grant select on "public"."outbox_heartbeats" to "orders_relay";
grant select, insert, update on "public"."outbox_publishers" to "orders_relay";
grant execute on function "public"."outbox_heartbeat"(text, interval) to "orders_relay";

-- orders_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
do $$
begin
    if not exists (select from pg_roles where rolname = 'orders_migrator') then
        create role "orders_migrator" login;
    end if;
    execute format('grant connect, create on database %I to %I', current_database(), 'orders_migrator');
end
$$;
grant usage, create on schema "public" to "orders_migrator";
do $$
begin
    execute format('alter function %s(text, interval) owner to %I', '"public"."outbox_heartbeat"', 'orders_migrator');
exception when undefined_function then
    null;  -- it is made by this role later
end
$$;
do $$
-- With their partitions; nothing is locked where the owner is the right one.
declare
    part regclass;
begin
    for part in
        select distinct cast(relation.oid as regclass)
        -- An outbox without a table has only the others; it may get one later.
        from (select to_regclass(name) from unnest(array['"public"."outbox"', '"public"."outbox_heads"', '"public"."outbox_publishers"', '"public"."outbox_checkpoints"', '"public"."outbox_heartbeats"', '"public"."cdc_outbox_version"', '"public"."inbox"', '"public"."inbox_rest"', '"public"."inbox_watermarks"', '"public"."inbox_parked"', '"public"."inbox_holes"', '"public"."inbox_epochs"', '"public"."inbox_starts"', '"public"."inbox_purges"']) as named (name)) as wanted (root)
        cross join lateral (select wanted.root union select relid from pg_partition_tree(wanted.root)) as tree (oid)
        join pg_class as relation on relation.oid = tree.oid
        where pg_get_userbyid(relation.relowner) <> 'orders_migrator'
    loop
        execute format('alter table %s owner to %I', part, 'orders_migrator');
    end loop;
end
$$;
do $$
begin
    if (select pg_get_userbyid(pubowner) from pg_publication where pubname = 'orders_outbox') <> 'orders_migrator' then
        alter publication "orders_outbox" owner to "orders_migrator";
    end if;
end
$$;

-- orders_pruner: runs `cdc-outbox prune`. It reads and deletes rows. As a member of pg_read_all_stats it can see more of what blocks pruning; --archive needs `insert` on that table.
do $$
begin
    if not exists (select from pg_roles where rolname = 'orders_pruner') then
        create role "orders_pruner" login;
    end if;
    execute format('grant connect on database %I to %I', current_database(), 'orders_pruner');
end
$$;
grant usage on schema "public" to "orders_pruner";
grant select, delete on "public"."outbox" to "orders_pruner";
grant select, insert, delete on "public"."outbox_checkpoints" to "orders_pruner";
grant select on "public"."outbox_heartbeats" to "orders_pruner";
grant select on "public"."outbox_publishers" to "orders_pruner";

commit;
exit 0

== mode: delete
@@ -18 +18 @@
-grant insert, select ("id", "sequence", "source", "created_at") on "public"."outbox" to "orders_writer";
+grant insert, select ("id", "sequence", "source", "created_at"), delete on "public"."outbox" to "orders_writer";
@@ -110,15 +109,0 @@
--- orders_pruner: runs `cdc-outbox prune`. It reads and deletes rows. As a member of pg_read_all_stats it can see more of what blocks pruning; --archive needs `insert` on that table.
-do $$
-begin
-    if not exists (select from pg_roles where rolname = 'orders_pruner') then
-        create role "orders_pruner" login;
-    end if;
-    execute format('grant connect on database %I to %I', current_database(), 'orders_pruner');
-end
-$$;
-grant usage on schema "public" to "orders_pruner";
-grant select, delete on "public"."outbox" to "orders_pruner";
-grant select, insert, delete on "public"."outbox_checkpoints" to "orders_pruner";
-grant select on "public"."outbox_heartbeats" to "orders_pruner";
-grant select on "public"."outbox_publishers" to "orders_pruner";
-

== mode: message
@@ -18 +17,0 @@
-grant insert, select ("id", "sequence", "source", "created_at") on "public"."outbox" to "orders_writer";
@@ -49 +47,0 @@
-grant select on "public"."outbox" to "orders_connector";
@@ -51,16 +48,0 @@
-
--- orders_relay: the relay. It reads the log, and writes that it publishes the outbox.
-do $$
-begin
-    if not exists (select from pg_roles where rolname = 'orders_relay') then
-        create role "orders_relay" login replication;
-    end if;
-    execute format('grant connect on database %I to %I', current_database(), 'orders_relay');
-end
-$$;
-grant usage on schema "public" to "orders_relay";
-grant select on "public"."outbox" to "orders_relay";
-grant select on "public"."outbox_heads" to "orders_relay";
-grant select on "public"."outbox_heartbeats" to "orders_relay";
-grant select, insert, update on "public"."outbox_publishers" to "orders_relay";
-grant execute on function "public"."outbox_heartbeat"(text, interval) to "orders_relay";
@@ -110,15 +91,0 @@
--- orders_pruner: runs `cdc-outbox prune`. It reads and deletes rows. As a member of pg_read_all_stats it can see more of what blocks pruning; --archive needs `insert` on that table.
-do $$
-begin
-    if not exists (select from pg_roles where rolname = 'orders_pruner') then
-        create role "orders_pruner" login;
-    end if;
-    execute format('grant connect on database %I to %I', current_database(), 'orders_pruner');
-end
-$$;
-grant usage on schema "public" to "orders_pruner";
-grant select, delete on "public"."outbox" to "orders_pruner";
-grant select, insert, delete on "public"."outbox_checkpoints" to "orders_pruner";
-grant select on "public"."outbox_heartbeats" to "orders_pruner";
-grant select on "public"."outbox_publishers" to "orders_pruner";
-

== payload_type: bytes

== payload_type: bytes, mode: delete
@@ -18 +18 @@
-grant insert, select ("id", "sequence", "source", "created_at") on "public"."outbox" to "orders_writer";
+grant insert, select ("id", "sequence", "source", "created_at"), delete on "public"."outbox" to "orders_writer";
@@ -110,15 +109,0 @@
--- orders_pruner: runs `cdc-outbox prune`. It reads and deletes rows. As a member of pg_read_all_stats it can see more of what blocks pruning; --archive needs `insert` on that table.
-do $$
-begin
-    if not exists (select from pg_roles where rolname = 'orders_pruner') then
-        create role "orders_pruner" login;
-    end if;
-    execute format('grant connect on database %I to %I', current_database(), 'orders_pruner');
-end
-$$;
-grant usage on schema "public" to "orders_pruner";
-grant select, delete on "public"."outbox" to "orders_pruner";
-grant select, insert, delete on "public"."outbox_checkpoints" to "orders_pruner";
-grant select on "public"."outbox_heartbeats" to "orders_pruner";
-grant select on "public"."outbox_publishers" to "orders_pruner";
-

== other names
@@ -8 +8 @@
--- orders_writer: the service. It adds and numbers events; it neither changes nor deletes them.
+-- my_writer: the service. It adds and numbers events; it neither changes nor deletes them.
@@ -11,2 +11,2 @@
-    if not exists (select from pg_roles where rolname = 'orders_writer') then
-        create role "orders_writer" login;
+    if not exists (select from pg_roles where rolname = 'my_writer') then
+        create role "my_writer" login;
@@ -14 +14 @@
-    execute format('grant connect on database %I to %I', current_database(), 'orders_writer');
+    execute format('grant connect on database %I to %I', current_database(), 'my_writer');
@@ -17,3 +17,3 @@
-grant usage on schema "public" to "orders_writer";
-grant insert, select ("id", "sequence", "source", "created_at") on "public"."outbox" to "orders_writer";
-grant select, insert, update ("last") on "public"."outbox_heads" to "orders_writer";
+grant usage on schema "public" to "my_writer";
+grant insert, select ("id", "sequence", "source", "created_at") on "public"."outbox" to "my_writer";
+grant select, insert, update ("last") on "public"."outbox_heads" to "my_writer";
@@ -21 +21 @@
--- orders_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
+-- my_consumer: the consuming service. It claims events and moves watermarks; it deletes neither.
@@ -24,2 +24,2 @@
-    if not exists (select from pg_roles where rolname = 'orders_consumer') then
-        create role "orders_consumer" login;
+    if not exists (select from pg_roles where rolname = 'my_consumer') then
+        create role "my_consumer" login;
@@ -27 +27 @@
-    execute format('grant connect on database %I to %I', current_database(), 'orders_consumer');
+    execute format('grant connect on database %I to %I', current_database(), 'my_consumer');
@@ -30,8 +30,8 @@
-grant usage on schema "public" to "orders_consumer";
-grant select, insert, delete on "public"."inbox" to "orders_consumer";
-grant select, insert, update on "public"."inbox_watermarks" to "orders_consumer";
-grant select, insert, update, delete on "public"."inbox_parked" to "orders_consumer";
-grant select, insert on "public"."inbox_holes" to "orders_consumer";
-grant select, insert, update on "public"."inbox_epochs" to "orders_consumer";
-grant select, insert, update, delete on "public"."inbox_starts" to "orders_consumer";
-grant select on "public"."inbox_purges" to "orders_consumer";
+grant usage on schema "public" to "my_consumer";
+grant select, insert, delete on "public"."inbox" to "my_consumer";
+grant select, insert, update on "public"."inbox_watermarks" to "my_consumer";
+grant select, insert, update, delete on "public"."inbox_parked" to "my_consumer";
+grant select, insert on "public"."inbox_holes" to "my_consumer";
+grant select, insert, update on "public"."inbox_epochs" to "my_consumer";
+grant select, insert, update, delete on "public"."inbox_starts" to "my_consumer";
+grant select on "public"."inbox_purges" to "my_consumer";
@@ -39 +39 @@
--- orders_connector: Debezium. It reads the log, and reads the rows only to publish them again.
+-- my_connector: Debezium. It reads the log, and reads the rows only to publish them again.
@@ -42,2 +42,2 @@
-    if not exists (select from pg_roles where rolname = 'orders_connector') then
-        create role "orders_connector" login replication;
+    if not exists (select from pg_roles where rolname = 'my_connector') then
+        create role "my_connector" login replication;
@@ -45 +45 @@
-    execute format('grant connect on database %I to %I', current_database(), 'orders_connector');
+    execute format('grant connect on database %I to %I', current_database(), 'my_connector');
@@ -48,3 +48,3 @@
-grant usage on schema "public" to "orders_connector";
-grant select on "public"."outbox" to "orders_connector";
-grant execute on function "public"."outbox_heartbeat"(text, interval) to "orders_connector";
+grant usage on schema "public" to "my_connector";
+grant select on "public"."outbox" to "my_connector";
+grant execute on function "public"."outbox_heartbeat"(text, interval) to "my_connector";
@@ -68 +68 @@
--- orders_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
+-- my_migrator: runs `cdc-outbox init` and `cdc-outbox partitions`; it owns what they create, or may alter it.
@@ -71,2 +71,2 @@
-    if not exists (select from pg_roles where rolname = 'orders_migrator') then
-        create role "orders_migrator" login;
+    if not exists (select from pg_roles where rolname = 'my_migrator') then
+        create role "my_migrator" login;
@@ -74 +74 @@
-    execute format('grant connect, create on database %I to %I', current_database(), 'orders_migrator');
+    execute format('grant connect, create on database %I to %I', current_database(), 'my_migrator');
@@ -77 +77 @@
-grant usage, create on schema "public" to "orders_migrator";
+grant usage, create on schema "public" to "my_migrator";
@@ -80 +80 @@
-    execute format('alter function %s(text, interval) owner to %I', '"public"."outbox_heartbeat"', 'orders_migrator');
+    execute format('alter function %s(text, interval) owner to %I', '"public"."outbox_heartbeat"', 'my_migrator');
@@ -96 +96 @@
-        where pg_get_userbyid(relation.relowner) <> 'orders_migrator'
+        where pg_get_userbyid(relation.relowner) <> 'my_migrator'
@@ -98 +98 @@
-        execute format('alter table %s owner to %I', part, 'orders_migrator');
+        execute format('alter table %s owner to %I', part, 'my_migrator');
@@ -104,2 +104,2 @@
-    if (select pg_get_userbyid(pubowner) from pg_publication where pubname = 'orders_outbox') <> 'orders_migrator' then
-        alter publication "orders_outbox" owner to "orders_migrator";
+    if (select pg_get_userbyid(pubowner) from pg_publication where pubname = 'orders_outbox') <> 'my_migrator' then
+        alter publication "orders_outbox" owner to "my_migrator";
