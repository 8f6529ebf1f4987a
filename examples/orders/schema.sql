-- The orders service's own table. `cdc-outbox init connectors/orders.yaml` has made the outbox beside it, and what
-- `cdc-outbox init connectors/orders.yaml --grants` prints has made the roles.
-- Passwords come from outside: psql -v writer_password=… -v connector_password=…
create table orders (
    id bigint generated always as identity primary key,
    customer integer not null,
    total_cents bigint not null
);

grant insert, select (id) on orders to orders_writer;
alter role orders_writer password :'writer_password';
alter role orders_connector password :'connector_password';
