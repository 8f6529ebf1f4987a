-- name: create
create table if not exists {outbox} (
    {id} text not null primary key,
    {aggregate_type} text not null,
    {aggregate_id} text not null,
    {type} text not null,
    {payload} {payload_type},
    {sequence} integer,
    {source} text not null default {first_source}{header_definitions},
    {created_at} text not null default (strftime('%Y-%m-%dT%H:%M:%f', 'now'))
) strict

-- name: create_heads
create table if not exists {heads} (
    source text not null default {first_source},
    aggregatetype text not null,
    aggregateid text not null,
    last integer not null check (last > 0),
    event_id text not null,
    primary key (aggregatetype, aggregateid, source)
) strict, without rowid

-- name: add_header_column
alter table {outbox} add column {column} text

-- name: move_heads
insert into {anew} (source, aggregatetype, aggregateid, last, event_id)
select source, aggregatetype, aggregateid, last, event_id from {heads};
drop table {heads};
alter table {anew} rename to {name}

-- name: move_outbox
insert into {anew} (rowid, {columns}) select rowid, {columns} from {outbox};
drop table {outbox};
alter table {anew} rename to {name}
