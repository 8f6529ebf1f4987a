-- The shipping service's own table. `cdc-outbox init --inbox` creates the inbox, and the statements of
-- `cdc-outbox init --inbox --grants --consumer-role shipping_consumer` create the role.
-- order_id has no unique key, so that an effect that happened twice would be visible.
create table shipments (
    id bigint generated always as identity primary key,
    order_id bigint not null,
    customer integer not null,
    sequence bigint not null
);

grant insert on shipments to shipping_consumer;
alter role shipping_consumer password :'consumer_password';
