-- The orders service's own table and roles; `cdc-outbox init connectors/orders.yaml` has made the outbox beside it.
-- Passwords come from outside: psql -v writer_password=… -v connector_password=…
create table orders (
    id bigint generated always as identity primary key,
    customer integer not null,
    total_cents bigint not null
);

-- The service: it may add events and number them, and neither read nor change nor delete one.
create role orders_writer login password :'writer_password';
grant insert on orders to orders_writer;
grant select (id) on orders to orders_writer;
grant insert on outbox to orders_writer;
grant select (id, sequence, source, created_at) on outbox to orders_writer; -- what the writer returns
grant select, insert, update on outbox_heads to orders_writer;

-- The connector: it reads the log, and the table's rows only if they have to be published again.
create role orders_connector login replication password :'connector_password';
grant select on outbox to orders_connector;
