-- name: rows
-- Newest first, where ids are made in the order of time.
select "{columns}"
from "{table}"
where cast(:id as text) is null or cast("{id}" as text) = :id
order by "{id}" desc
limit :limit;

-- name: text
select cast("{column}" as text);

-- name: bytea
select '\x' || pg_catalog.encode("{column}", 'hex');

-- name: timestamp
select pg_catalog.to_char("{column}", 'YYYY-MM-DD"T"HH24:MI:SS.US');

-- name: timestamptz
select pg_catalog.to_char("{column}" at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
