-- name: server
select cast((pg_control_system()).system_identifier as text), pg_is_in_recovery();
