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
select "{id}", "{id}" as known_as, "{aggregate_type}", "{aggregate_id}", "{source}", "{sequence}"
from "{outbox}"
order by "{id}"
limit :rows;

-- name: next_rows
select "{id}", "{id}" as known_as, "{aggregate_type}", "{aggregate_id}", "{source}", "{sequence}"
from "{outbox}"
where "{id}" > :after
order by "{id}"
limit :rows;
