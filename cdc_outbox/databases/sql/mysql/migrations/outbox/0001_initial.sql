-- name: create_outbox if has_table
create table if not exists `{outbox}` (
    `{id}` char(36) character set ascii collate ascii_bin not null primary key,
    `{aggregate_type}` varchar(249) not null,
    `{aggregate_id}` varchar(1000) not null,
    `{type}` varchar(249) not null,
    -- if stores_json
    `{payload}` json,
    -- end
    -- if stores_bytes
    `{payload}` longblob,
    -- end
    `{sequence}` bigint,
    `{source}` varchar(255) not null default '{first_source}',
    -- if header_definitions
    `{header_definitions}` longtext,
    -- end
    `{created_at}` datetime(6) not null default (utc_timestamp(6))
) engine = InnoDB row_format = dynamic default character set = utf8mb4 collate = utf8mb4_bin;

-- name: create_heads
create table if not exists `{heads}` (
    -- Bytes, because no collation that tells 'a' from 'a ' has the same name on MariaDB and MySQL. The key has
    -- 1,504 bytes and its lengths, of 3,072.
    source varbinary(255) not null default '{first_source}',
    aggregatetype varbinary(249) not null,
    aggregateid varbinary(1000) not null,
    last bigint not null check (last >= 0),
    primary key (source, aggregatetype, aggregateid)
) engine = InnoDB row_format = dynamic;
