-- docker-compose.yml runs this on PostgreSQL's first start, in the database `orders` and with the passwords of .env.
-- `cdc-outbox init` with --grants gives the roles their privileges.
\getenv writer_password ORDERS_WRITER_PASSWORD
\getenv connector_password ORDERS_CONNECTOR_PASSWORD
\getenv relay_password ORDERS_RELAY_PASSWORD
\getenv consumer_password SHIPPING_CONSUMER_PASSWORD
create role orders_writer login password :'writer_password';
create role orders_connector login replication password :'connector_password';
create role orders_relay login replication password :'relay_password';
create role shipping_consumer login password :'consumer_password';
create database shipping;
