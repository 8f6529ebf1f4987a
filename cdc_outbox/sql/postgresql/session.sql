-- name: prepare
-- Who sits in a transaction for longer is cut off, so that the locks of a consumer that was paused come free.
select
    set_config('idle_in_transaction_session_timeout', cast(:idle_milliseconds as text), false),
    set_config('default_transaction_isolation', 'read committed', false)
