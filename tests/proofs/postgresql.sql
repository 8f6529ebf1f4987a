create schema {name};
create table {name}.outbox (
    id uuid primary key default gen_random_uuid(), aggregatetype text, aggregateid text, type text, payload json,
    sequence bigint, source text, traceparent text, tracestate text,
    created_at timestamp(6) default (clock_timestamp() at time zone 'UTC')
);
create table {name}.other (id int generated always as identity primary key, note text);
create table {name}.signals (id text primary key, type text, data text);
create table {name}.beats (id int generated always as identity primary key, note text);
grant usage on schema {name} to connector;
grant all on all tables in schema {name} to connector;
create publication {name} for table {name}.outbox, {name}.other, {name}.signals;
