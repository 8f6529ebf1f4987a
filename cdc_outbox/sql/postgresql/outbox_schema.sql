-- name: create
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
create table if not exists {heads} (
    source text collate "C" not null default {first_source},
    aggregatetype text collate "C" not null,
    aggregateid text collate "C" not null,
    last bigint not null check (last > 0),
    primary key (source, aggregatetype, aggregateid)
);

-- name: create_marks
create table if not exists {marks} (
    number bigint generated always as identity primary key,
    slot text collate "C" not null,
    reader text collate "C" not null,
    position pg_lsn not null,
    oldest bigint not null,
    taken_at timestamptz not null
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
