-- name: drop_table
drop table if exists `{table}`;
