-- name: create_outbox if has_table
create table if not exists "{outbox}" (
    "{id}" text not null primary key,
    "{aggregate_type}" text not null,
    "{aggregate_id}" text not null,
    "{type}" text not null,
    "{payload}" "{payload_type}",
    "{sequence}" integer,
    "{source}" text not null default '{first_source}',
    -- if header_definitions
    "{header_definitions}" text,
    -- end
    "{created_at}" text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
) strict;

-- name: create_heads
create table if not exists "{heads}" (
    source text not null default '{first_source}',
    aggregatetype text not null,
    aggregateid text not null,
    last integer not null check (last > 0),
    event_id text not null,
    primary key (aggregatetype, aggregateid, source)
) strict, without rowid;
