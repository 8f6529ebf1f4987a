-- name: isolate
set session transaction isolation level read committed;

-- name: bound_idling_mariadb
set session idle_transaction_timeout = '{idle_seconds}';

-- name: role
select coalesce(current_role(), 'none');

-- name: begin
start transaction;

-- name: ask
-- An answer says whether a transaction is open; an error, which may have ended it, does not.
select 1;

-- name: ask_mariadb
select @@in_transaction;
