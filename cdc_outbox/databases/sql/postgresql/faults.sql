-- name: drop_table
drop table if exists "{table}";

-- name: be_brief
-- A handler may hold a lock that who looks on would wait for in vain.
set local lock_timeout = '2s';

-- name: conflict
do $$ begin raise exception 'a deadlock, made for a test' using errcode = '40P01'; end $$;

-- name: loss
select pg_catalog.pg_terminate_backend(pg_backend_pid());
