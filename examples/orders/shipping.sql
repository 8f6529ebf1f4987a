-- The shipping service's own table and role; `cdc-outbox init --inbox` has made the inbox beside it.
-- There is no unique key on order_id, so that an effect that happened twice would be seen.
create table shipments (
    id bigint generated always as identity primary key,
    order_id bigint not null,
    customer integer not null,
    sequence bigint not null
);

create role shipping_consumer login password :'consumer_password';
grant insert on shipments to shipping_consumer;
grant select, insert on inbox to shipping_consumer;
grant select, insert, update on inbox_watermarks to shipping_consumer;
