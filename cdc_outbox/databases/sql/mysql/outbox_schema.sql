-- name: add_header_column
-- What MariaDB alone knows as `add column if not exists`.
set @add_header_column = if(
    exists (
        select * from information_schema.columns
        where table_schema = '{schema_literal}' and table_name = '{name_literal}' and column_name = '{column_literal}'
    ),
    'do 0',
    '{add_literal}'
);
-- then
prepare add_header_column from @add_header_column;
-- then
execute add_header_column;
-- then
deallocate prepare add_header_column;

-- name: add_column
alter table `{outbox}` add column `{column}` longtext character set utf8mb4 collate utf8mb4_bin;

-- name: set_source
alter table `{heads}` alter column source set default '{source_literal}';

-- name: set_outbox_source
alter table `{outbox}` alter column `{source}` set default '{source_literal}';
