-- For MariaDB from 10.6 and MySQL from 8.0.21. MariaDB executes the steps of an event as one statement, and returns what it
-- inserted; to MySQL the words for it are a comment, and it is asked in a step of its own, which is left out once rows
-- have come back. The key of a head is bytes,
-- and a text becomes the same bytes whatever character set the connection has. `default(source)` is a constant to both,
-- so that the whole primary key is given and a head's row alone is locked, not the gaps beside it.
--
-- `block_…` is what MariaDB executes instead of `add_…`, where that costs it less: `insert … select` takes it twice as long
-- as `insert … values`, so the head's insert leaves number and source in variables, or no source with an aggregate's first
-- event: `default(source)` among the values would ask for the privilege to update the source. Comments in a block would be
-- sent with each event.

-- name: add_gapless
-- A caller may catch what the second insert raises, and commit: the number must not be gone then.
savepoint cdc_outbox_add;
-- then
insert into `{heads}` (aggregatetype, aggregateid, last)
values (convert(:aggregate_type using utf8mb4), convert(:aggregate_id using utf8mb4), 1)
on duplicate key update last = last + 1;
-- then
insert into `{outbox}` (
    `{id}`, `{aggregate_type}`, `{aggregate_id}`, `{type}`, `{payload}`, `{sequence}`, `{source}`, `{header_columns}`
)
select
    :id, :aggregate_type, :aggregate_id, :type, :payload, head.last, head.source
    , `{header_values}`
from `{heads}` as head
where head.source = default(head.source)
    and head.aggregatetype = convert(:aggregate_type using utf8mb4)
    and head.aggregateid = convert(:aggregate_id using utf8mb4)
/*M! returning `{returned}`, `{sequence}` */;
-- then
-- unless returned
select `{returned}`, `{sequence}` from `{outbox}` where `{id}` = :id;
-- then
release savepoint cdc_outbox_add;

-- name: block_gapless
savepoint cdc_outbox_add;
-- then
insert into `{heads}` (aggregatetype, aggregateid, last)
values (
    convert(:aggregate_type using utf8mb4), convert(:aggregate_id using utf8mb4),
    (@cdc_outbox_last := 1) + 0 * isnull(@cdc_outbox_source := null)
)
on duplicate key update last = (@cdc_outbox_last := last + 1) + 0 * isnull(@cdc_outbox_source := source);
-- then
if @cdc_outbox_source is null then
    select head.source into @cdc_outbox_source
    from `{heads}` as head
    where head.source = default(head.source)
        and head.aggregatetype = convert(:aggregate_type using utf8mb4)
        and head.aggregateid = convert(:aggregate_id using utf8mb4); end if;
-- then
insert into `{outbox}` (
    `{id}`, `{aggregate_type}`, `{aggregate_id}`, `{type}`, `{payload}`, `{sequence}`, `{source}`, `{header_columns}`
)
values (
    :id, :aggregate_type, :aggregate_id, :type, :payload, @cdc_outbox_last, @cdc_outbox_source
    , `{header_values}`
)
returning `{returned}`, `{sequence}`;
-- then
release savepoint cdc_outbox_add;

-- name: undo_gapless
rollback to savepoint cdc_outbox_add;

-- name: add_increasing
-- How many rows a statement changed is not asked: under CLIENT_FOUND_ROWS it means another thing. The first statement
-- changes no head that exists, and locks it.
insert into `{heads}` (aggregatetype, aggregateid, last)
values (convert(:aggregate_type using utf8mb4), convert(:aggregate_id using utf8mb4), 0)
on duplicate key update last = last;
-- then
insert into `{outbox}` (
    `{id}`, `{aggregate_type}`, `{aggregate_id}`, `{type}`, `{payload}`, `{sequence}`, `{source}`, `{header_columns}`
)
select
    :id, :aggregate_type, :aggregate_id, :type, :payload, :sequence, head.source
    , `{header_values}`
from `{heads}` as head
where head.source = default(head.source)
    and head.aggregatetype = convert(:aggregate_type using utf8mb4)
    and head.aggregateid = convert(:aggregate_id using utf8mb4)
    and head.last < :sequence
-- The newest head, whatever the transaction's snapshot holds.
for update
/*M! returning `{returned}`, `{sequence}` */;
-- then
-- unless returned
-- Before the head moves: an event that was there already, under the same id, must not look as if it were written now.
select `{returned}`, `{sequence}`
from `{outbox}`
where `{id}` = :id
    and not exists (
        select *
        from `{heads}` as head
        where head.source = default(head.source)
            and head.aggregatetype = convert(:aggregate_type using utf8mb4)
            and head.aggregateid = convert(:aggregate_id using utf8mb4)
            and head.last >= :sequence
    );
-- then
update `{heads}`
set last = :sequence
where source = default(source)
    and aggregatetype = convert(:aggregate_type using utf8mb4)
    and aggregateid = convert(:aggregate_id using utf8mb4)
    and last < :sequence;

-- name: add_unsequenced
insert into `{outbox}` (`{id}`, `{aggregate_type}`, `{aggregate_id}`, `{type}`, `{payload}`, `{header_columns}`)
values (
    :id, :aggregate_type, :aggregate_id, :type, :payload
    , `{header_values}`
)
/*M! returning `{returned}` */;
-- then
-- unless returned
select `{returned}` from `{outbox}` where `{id}` = :id;

-- name: forget
delete from `{outbox}` where `{id}` = :id;
