-- name: connections
-- To a role without PROCESS other users' are not there.
select id, command in ('Binlog Dump', 'Binlog Dump GTID')
from information_schema.processlist
where user = :user
order by id;

-- name: committed
set session transaction isolation level read committed;

-- name: repeatable
set session transaction isolation level repeatable read;

-- name: snapshot
-- It ends the transaction before, and its snapshot.
start transaction with consistent snapshot, read only;

-- name: time
select utc_timestamp(6);

-- name: count_seen
select count(*), coalesce(sum(coalesce(`{created_at}` >= :before, false)), 0) from `{outbox}`;

-- name: page
select `{id}`, coalesce(`{created_at}` >= :before, false)
from `{outbox}`
where `{id}` >= :first or :first is null
order by `{id}`
limit :rows;

-- name: count
select count(*)
from `{outbox}`
where (`{id}` >= :first or :first is null) and (`{id}` < :following or :following is null);

-- name: hold
-- What another pruning has locked is its own to delete. In the order of ids the server looks for each; without one it
-- would read a small table as a whole, and wait for the rows that a writer has not committed.
select `{id}` from `{outbox}` where `{id}` in (`{ids}`) order by `{id}` for update skip locked;

-- name: archive
insert into `{archive}` (`{archived_columns}`) select `{archived_columns}` from `{outbox}` where `{id}` in (`{ids}`);

-- name: delete
-- In order and limited for the same reason.
delete from `{outbox}` where `{id}` in (`{ids}`) order by `{id}` limit :rows;

-- name: create_archive
create table if not exists `{archive}` like `{outbox}`;
