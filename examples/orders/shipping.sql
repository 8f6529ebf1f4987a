-- The shipping service's own table. `cdc-outbox init --inbox` has made the inbox beside it, and what
-- `cdc-outbox init --inbox --grants --consumer-role shipping_consumer` prints has made the role.
-- There is no unique key on order_id, so that an effect that happened twice would be seen.
create table shipments (
    id bigint generated always as identity primary key,
    order_id bigint not null,
    customer integer not null,
    sequence bigint not null
);

grant insert on shipments to shipping_consumer;
alter role shipping_consumer password :'consumer_password';
