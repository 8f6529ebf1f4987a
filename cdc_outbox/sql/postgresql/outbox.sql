-- name: add
with head as (
    insert into {heads} as head (aggregatetype, aggregateid, last)
    values (:aggregate_type, :aggregate_id, 1)
    on conflict (source, aggregatetype, aggregateid) do update set last = head.last + 1
    returning head.source, head.last
)
insert into {outbox} (
    {id}, {aggregate_type}, {aggregate_id}, {type}, {payload}, {sequence}, {source}, {traceparent}, {tracestate}
)
select
    cast(:id as uuid), :aggregate_type, :aggregate_id, :type, cast(:payload as json), head.last, head.source,
    :traceparent, :tracestate
from head
returning {sequence}, {source}, {created_at}

-- name: add_unsequenced
insert into {outbox} (
    {id}, {aggregate_type}, {aggregate_id}, {type}, {payload}, {traceparent}, {tracestate}
)
values (
    cast(:id as uuid), :aggregate_type, :aggregate_id, :type, cast(:payload as json), :traceparent, :tracestate
)
returning {sequence}, {source}, {created_at}
