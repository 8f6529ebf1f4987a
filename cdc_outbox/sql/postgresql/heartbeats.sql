-- name: exists
select to_regclass({table_literal}) is not null

-- name: read
select number, cast(id as text), cast(previous as text), written_at, clock_timestamp() from {heartbeats} order by number

-- name: write
select {heartbeat}(:pipeline, interval '0')
