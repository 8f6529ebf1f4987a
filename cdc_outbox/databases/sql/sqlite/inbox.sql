-- For SQLite from 3.38. Lists come as one text of JSON, :rows.

-- name: claim
-- The savepoint comes last: while it is there, the transaction is still the one of the claims. Nor could it come
-- first, for sqlite3 opens a transaction by itself only before what writes.
insert into "{inbox}" (consumer, event_id, claim_token)
select :consumer, value ->> '$.event_ids', :transaction
from json_each(:rows)
where true
on conflict (consumer, event_id) do nothing
returning event_id;
-- then
savepoint cdc_outbox_claims;

-- name: find_claims
select event_id
from "{inbox}"
where consumer = :consumer and event_id in (select value ->> '$.event_ids' from json_each(:rows));

-- name: identify
update "{watermarks}" set last = last where false;
-- then
savepoint cdc_outbox_claims;
-- then
select :transaction;

-- name: prove
release cdc_outbox_claims;

-- name: release
delete from "{inbox}" where consumer = :consumer and event_id in (select value ->> '$.event_ids' from json_each(:rows));

-- name: take_back
delete from "{inbox}"
where consumer = :consumer
    and event_id in (select value ->> '$.event_ids' from json_each(:rows))
    and claim_token = :transaction
returning event_id;

-- name: look
-- There is one isolation level, and whoever has written is the only one who can.
select
    (select (julianday(max(purged_before)) - 2440587.5) * 86400.0 from "{purges}" where consumer = :consumer), 1;

-- name: find_watermarks
select wanted.key + 1, mark.last, mark.parked
from json_each(:rows) as wanted
cross join "{watermarks}" as mark
    on mark.consumer = :consumer
    and mark.source = wanted.value ->> '$.sources'
    and mark.aggregatetype = wanted.value ->> '$.aggregate_types'
    and mark.aggregateid = wanted.value ->> '$.aggregate_ids';

-- name: lock_watermarks
-- Nobody else can write; rows are made that are not there.
insert into "{watermarks}" (consumer, source, aggregatetype, aggregateid, last)
select :consumer, value ->> '$.sources', value ->> '$.aggregate_types', value ->> '$.aggregate_ids', 0
from json_each(:rows)
where true
on conflict (consumer, source, aggregatetype, aggregateid) do update set updated_at = excluded.updated_at
returning source, aggregatetype, aggregateid, last, parked;

-- name: advance
-- What is read is what is changed: nobody else can write.
insert into "{watermarks}" as changed (consumer, source, aggregatetype, aggregateid, last, parked)
select
    :consumer, moved.value ->> '$.sources', moved.value ->> '$.aggregate_types', moved.value ->> '$.aggregate_ids',
    moved.value ->> '$.afters', moved.value ->> '$.parked'
from json_each(:rows) as moved
left join "{watermarks}" as mark
    on mark.consumer = :consumer
    and mark.source = moved.value ->> '$.sources'
    and mark.aggregatetype = moved.value ->> '$.aggregate_types'
    and mark.aggregateid = moved.value ->> '$.aggregate_ids'
where coalesce(mark.last, 0) = moved.value ->> '$.befores'
on conflict (consumer, source, aggregatetype, aggregateid) do update
set last = excluded.last, parked = changed.parked + excluded.parked, updated_at = excluded.updated_at
returning source, aggregatetype, aggregateid, parked;
