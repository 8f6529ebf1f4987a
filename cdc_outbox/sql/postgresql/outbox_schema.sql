-- name: create_outbox
create table if not exists {outbox} (
    {id} uuid primary key,
    {aggregate_type} text not null,
    {aggregate_id} text not null,
    {type} text not null,
    {payload} {payload_type},
    {sequence} bigint,
    {source} text not null default {first_source}{header_definitions},
    {created_at} timestamp(6) not null default (clock_timestamp() at time zone 'UTC')
);

-- name: create_heads
create table if not exists {heads} (
    source text collate "C" not null default {first_source},
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    last bigint not null check (last > 0),
    primary key (source, aggregatetype, aggregateid)
);

-- name: create_publication
begin
    if not exists (select from pg_publication where pubname = {publication_literal}) then
        create publication {publication} for table {outbox} with (publish = 'insert');
    elsif not exists (
        select from pg_publication_tables
        where pubname = {publication_literal} and schemaname = {schema_literal} and tablename = {table_literal}
    ) then
        alter publication {publication} add table {outbox};
    end if;
end

-- name: create_empty_publication
begin
    if not exists (select from pg_publication where pubname = {publication_literal}) then
        create publication {publication} with (publish = 'insert');
    end if;
end

-- name: add_header_column
begin
    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
    if not exists (
        select from pg_attribute where attrelid = to_regclass({outbox_literal}) and attname = {column_literal}
    ) then
        alter table {outbox} add column {column} text;
    end if;
end
