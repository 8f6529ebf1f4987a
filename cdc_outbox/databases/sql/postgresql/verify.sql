-- name: first_heads
select source, aggregatetype, aggregateid, last
from "{heads}"
order by source, aggregatetype, aggregateid
limit :rows;

-- name: next_heads
select source, aggregatetype, aggregateid, last
from "{heads}"
where (source, aggregatetype, aggregateid) > (:source, :aggregate_type, :aggregate_id)
order by source, aggregatetype, aggregateid
limit :rows;

-- name: first_rows
-- By PostgreSQL's own order, as the operator that the next rows are found by, whatever the column's type is.
select "{id}", cast("{id}" as text) as known_as, cast("{aggregate_type}" as text), cast("{aggregate_id}" as text), "{source}", "{sequence}"
from "{outbox}"
order by "{id}" using operator(pg_catalog.<)
limit :rows;

-- name: next_rows
select "{id}", cast("{id}" as text) as known_as, cast("{aggregate_type}" as text), cast("{aggregate_id}" as text), "{source}", "{sequence}"
from "{outbox}"
where "{id}" operator(pg_catalog.>) :after
order by "{id}" using operator(pg_catalog.<)
limit :rows;
