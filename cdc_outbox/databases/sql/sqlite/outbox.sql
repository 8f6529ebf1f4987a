-- For SQLite from 3.38. It has no function that tells a column's default, so a head keeps the id of the event that it
-- was moved for: that is how the second statement finds it, whatever source the default is by now.

-- name: add_gapless
insert into "{heads}" as head (aggregatetype, aggregateid, last, event_id)
values (:aggregate_type, :aggregate_id, 1, :mark)
on conflict (aggregatetype, aggregateid, source) do update set last = head.last + 1, event_id = excluded.event_id;
-- then
insert into "{outbox}" (
    "{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}", "{source}", "{header_columns}"
)
select
    :id, :aggregate_type, :aggregate_id, :type, :payload, head.last, head.source
    , "{header_values}"
from "{heads}" as head
where head.aggregatetype = :aggregate_type and head.aggregateid = :aggregate_id and head.event_id = :mark
returning "{returned}", "{sequence}";

-- name: undo_gapless
-- A caller may catch what the second insert raises, and commit: the number must not be gone then. No other insertion has
-- this mark, so a number that was not taken is not given back. An interruption may come after the insert: the event goes
-- then, but none that was there before under the same id, whose number is lower.
delete from "{outbox}"
where "{id}" = :id
    and ("{sequence}", "{source}") = (
        select head.last, head.source
        from "{heads}" as head
        where head.aggregatetype = :aggregate_type and head.aggregateid = :aggregate_id and head.event_id = :mark
    );
-- then
delete from "{heads}"
where aggregatetype = :aggregate_type and aggregateid = :aggregate_id and event_id = :mark and last = 1;
-- then
update "{heads}"
set last = last - 1
where aggregatetype = :aggregate_type and aggregateid = :aggregate_id and event_id = :mark;

-- name: add_increasing
-- As for undo_gapless; the number before is not known here, so there is a savepoint. Before it comes what writes, because
-- with anything else sqlite3 opens no transaction, and the savepoint would be one.
update "{heads}" set last = last where false;
-- then
savepoint cdc_outbox_add;
-- then
insert into "{heads}" as head (aggregatetype, aggregateid, last, event_id)
values (:aggregate_type, :aggregate_id, :sequence, :id)
on conflict (aggregatetype, aggregateid, source) do update set last = excluded.last, event_id = excluded.event_id
where head.last < excluded.last;
-- then
insert into "{outbox}" (
    "{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}", "{source}", "{header_columns}"
)
select
    :id, :aggregate_type, :aggregate_id, :type, :payload, head.last, head.source
    , "{header_values}"
from "{heads}" as head
where head.aggregatetype = :aggregate_type and head.aggregateid = :aggregate_id and head.event_id = :id
    -- The head was moved just now, and not when this id was written before.
    and changes() > 0
returning "{returned}", "{sequence}";
-- then
release cdc_outbox_add;

-- name: undo_increasing
rollback to cdc_outbox_add;
-- then
release cdc_outbox_add;

-- name: add_unsequenced
insert into "{outbox}" ("{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{header_columns}")
values (
    :id, :aggregate_type, :aggregate_id, :type, :payload
    , "{header_values}"
)
returning "{returned}";

-- name: forget
delete from "{outbox}" where "{id}" = :id;
