-- name: add_header_column
alter table "{outbox}" add column "{column}" text;

-- name: move_heads
insert into "{anew}" (source, aggregatetype, aggregateid, last, event_id)
select source, aggregatetype, aggregateid, last, event_id from "{heads}";
-- then
drop table "{heads}";
-- then
alter table "{anew}" rename to "{name}";

-- name: move_outbox
insert into "{anew}" (rowid, "{columns}") select rowid, "{columns}" from "{outbox}";
-- then
drop table "{outbox}";
-- then
alter table "{anew}" rename to "{name}";
