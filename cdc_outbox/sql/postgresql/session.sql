-- name: isolate
set session characteristics as transaction isolation level read committed

-- name: bound_idling
set idle_in_transaction_session_timeout = {idle_milliseconds}

-- name: begin
-- Clients open a transaction with their first statement. It fails where a transaction is aborted, too.
select 1
