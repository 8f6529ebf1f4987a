-- The orders service's own table. `cdc-outbox init connectors/orders.yaml` creates the outbox, and the statements of
-- `cdc-outbox init connectors/orders.yaml --grants` create the roles.
-- Pass the passwords as variables: psql -v writer_password=… -v connector_password=… -v relay_password=…
create table orders (
    id bigint generated always as identity primary key,
    customer integer not null,
    total_cents bigint not null
);

grant insert, select (id) on orders to orders_writer;
alter role orders_writer password :'writer_password';
alter role orders_connector password :'connector_password';
alter role orders_relay password :'relay_password';
