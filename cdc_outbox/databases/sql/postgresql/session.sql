-- name: isolate
set session characteristics as transaction isolation level read committed;

-- name: bound_idling
set idle_in_transaction_session_timeout = '{idle_milliseconds}';

-- name: bound_transactions
-- Servers before 17 have no such bound.
select pg_catalog.set_config('transaction_timeout', :milliseconds, false)
where cast(pg_catalog.current_setting('server_version_num') as integer) >= 170000;

-- name: role
select current_user;

-- name: begin
-- Clients open a transaction with their first statement. It fails where a transaction is aborted, too.
select 1;
