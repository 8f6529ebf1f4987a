-- A driver sends a parameter as what its cast says, and the user may have taught it another way to send uuid or json:
-- so what is not text goes as text, and is cast again. Times come back as text for the same reason.

-- name: add_gapless
with head as (
    insert into "{heads}" as head (aggregatetype, aggregateid, last)
    values (:aggregate_type, :aggregate_id, 1)
    on conflict (source, aggregatetype, aggregateid) do update set last = head.last + 1
    returning head.source, head.last
)
insert into "{outbox}" (
    "{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}", "{source}", "{header_columns}"
)
select
    cast(cast(:id as text) as uuid), :aggregate_type, :aggregate_id, :type,
    cast(cast(:payload as "{payload_input}") as "{payload_type}"), head.last, head.source
    , "{header_values}"
from head
returning "{returned}", "{sequence}";

-- name: add_increasing
with head as (
    insert into "{heads}" as head (aggregatetype, aggregateid, last)
    values (:aggregate_type, :aggregate_id, :sequence)
    on conflict (source, aggregatetype, aggregateid) do update set last = excluded.last where head.last < excluded.last
    returning head.source, head.last
)
insert into "{outbox}" (
    "{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}", "{source}", "{header_columns}"
)
select
    cast(cast(:id as text) as uuid), :aggregate_type, :aggregate_id, :type,
    cast(cast(:payload as "{payload_input}") as "{payload_type}"), head.last, head.source
    , "{header_values}"
from head
returning "{returned}", "{sequence}";

-- name: add_unsequenced
insert into "{outbox}" ("{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{header_columns}")
values (
    cast(cast(:id as text) as uuid), :aggregate_type, :aggregate_id, :type,
    cast(cast(:payload as "{payload_input}") as "{payload_type}")
    , "{header_values}"
)
returning "{returned}";

-- name: add_all_gapless
with given as (
    select id, aggregate_type, aggregate_id, type, "{payload_decoded}" as payload, headers, sequence, position
    from rows from (
        pg_catalog.json_to_recordset(cast(cast(:events as text) as json)) as (
            id uuid, aggregate_type text, aggregate_id text, type text, payload text, headers json, sequence bigint
        )
    ) with ordinality as event (id, aggregate_type, aggregate_id, type, payload, headers, sequence, position)
),
head as (
    insert into "{heads}" as head (aggregatetype, aggregateid, last)
    select aggregate_type, aggregate_id, count(*)
    from given
    group by aggregate_type, aggregate_id
    -- Every writer locks in this order, so that two of them cannot wait for each other.
    order by aggregate_type collate "C", aggregate_id collate "C"
    on conflict (source, aggregatetype, aggregateid) do update set last = head.last + excluded.last
    returning head.source, head.aggregatetype, head.aggregateid, head.last
)
insert into "{outbox}" (
    "{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}", "{source}", "{header_columns}"
)
select
    given.id, given.aggregate_type, given.aggregate_id, given.type, given.payload,
    -- The last number is the last event's; the others count back from it.
    head.last + 1 - row_number() over (
        partition by given.aggregate_type, given.aggregate_id order by given.position desc
    ),
    head.source
    , "{header_fields}"
from given
join head on head.aggregatetype = given.aggregate_type and head.aggregateid = given.aggregate_id
order by given.position
returning "{returned}", "{sequence}", cast("{id}" as text);

-- name: add_all_increasing
with given as (
    select id, aggregate_type, aggregate_id, type, "{payload_decoded}" as payload, headers, sequence, position
    from rows from (
        pg_catalog.json_to_recordset(cast(cast(:events as text) as json)) as (
            id uuid, aggregate_type text, aggregate_id text, type text, payload text, headers json, sequence bigint
        )
    ) with ordinality as event (id, aggregate_type, aggregate_id, type, payload, headers, sequence, position)
),
head as (
    insert into "{heads}" as head (aggregatetype, aggregateid, last)
    select aggregate_type, aggregate_id, pg_catalog.max(sequence)
    from given
    group by aggregate_type, aggregate_id
    order by aggregate_type collate "C", aggregate_id collate "C"
    on conflict (source, aggregatetype, aggregateid) do update set last = excluded.last
    where head.last < (
        select pg_catalog.min(given.sequence)
        from given
        where given.aggregate_type = excluded.aggregatetype and given.aggregate_id = excluded.aggregateid
    )
    returning head.source, head.aggregatetype, head.aggregateid
)
insert into "{outbox}" (
    "{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}", "{source}", "{header_columns}"
)
select
    given.id, given.aggregate_type, given.aggregate_id, given.type, given.payload,
    given.sequence, head.source
    , "{header_fields}"
from given
join head on head.aggregatetype = given.aggregate_type and head.aggregateid = given.aggregate_id
order by given.position
returning "{returned}", "{sequence}", cast("{id}" as text);

-- name: add_all_unsequenced
insert into "{outbox}" ("{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{header_columns}")
select
    given.id, given.aggregate_type, given.aggregate_id, given.type, given.payload
    , "{header_fields}"
from (
    select id, aggregate_type, aggregate_id, type, "{payload_decoded}" as payload, headers, sequence, position
    from rows from (
        pg_catalog.json_to_recordset(cast(cast(:events as text) as json)) as (
            id uuid, aggregate_type text, aggregate_id text, type text, payload text, headers json, sequence bigint
        )
    ) with ordinality as event (id, aggregate_type, aggregate_id, type, payload, headers, sequence, position)
) as given
order by given.position
returning "{returned}", null, cast("{id}" as text);

-- name: forget
delete from "{outbox}" where "{id}" operator(pg_catalog.=) any(cast(cast(:ids as text[]) as uuid[]));

-- name: emit_gapless
with head as (
    insert into "{heads}" as head (aggregatetype, aggregateid, last)
    values (:aggregate_type, :aggregate_id, 1)
    on conflict (source, aggregatetype, aggregateid) do update set last = head.last + 1
    returning head.source, head.last, clock_timestamp() as created_at
)
select
    head.source, pg_catalog.to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), head.last
from head
-- After the head row is locked: what the message says is what the row says.
cross join lateral pg_catalog.pg_logical_emit_message(
    true, cast(:prefix as text),
    pg_catalog.concat(
        cast(:content as text), head.last, cast(:source_key as text), pg_catalog.to_json(head.source),
        cast(:created_key as text) || cast(cast(extract(epoch from created_at) * 1e6 as bigint) as text), '}'
    )
) as message;

-- name: emit_increasing
with head as (
    insert into "{heads}" as head (aggregatetype, aggregateid, last)
    values (:aggregate_type, :aggregate_id, :sequence)
    on conflict (source, aggregatetype, aggregateid) do update set last = excluded.last where head.last < excluded.last
    returning head.source, head.last, clock_timestamp() as created_at
)
select
    head.source, pg_catalog.to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'), head.last
from head
cross join lateral pg_catalog.pg_logical_emit_message(
    true, cast(:prefix as text),
    pg_catalog.concat(
        cast(:content as text), head.last, cast(:source_key as text), pg_catalog.to_json(head.source),
        cast(:created_key as text) || cast(cast(extract(epoch from created_at) * 1e6 as bigint) as text), '}'
    )
) as message;

-- name: emit_unsequenced
with clock as materialized (
    select clock_timestamp() as created_at
)
select null, pg_catalog.to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')
from clock
cross join lateral pg_catalog.pg_logical_emit_message(
    true, cast(:prefix as text),
    pg_catalog.concat(
        cast(:content as text),
        cast(:created_key as text) || cast(cast(extract(epoch from created_at) * 1e6 as bigint) as text), '}'
    )
) as message;
