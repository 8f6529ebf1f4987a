-- name: delete
delete from "{outbox}"
where "{id}" operator(pg_catalog.=) :id;
