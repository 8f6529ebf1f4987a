-- name: create_missing_outbox
do $$
-- An outbox that was made for messages has none.
begin
    if to_regclass('{table_literal}') is null or to_regclass('{last_literal}') is null then
"{creates}";
    end if;
end
$$;

-- name: create_heartbeat
create or replace function "{heartbeat}"(pipeline text, pause interval default '1 minute') returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
-- Who waits for a row here lets the connector wait.
set lock_timeout = '5s'
as $$
declare
    at timestamptz := clock_timestamp();
    last "{heartbeats}";
    beat "{heartbeats}";
    content text;
begin
    select * into last from "{heartbeats}" order by number desc limit 1;
    -- One is due once a minute, where the clock went back, after a start of the server, and at a session's first call:
    -- pg_stat_activity would show a definer nothing of the session.
    if last.written_at between at - pause and at
        and last.written_at >= pg_postmaster_start_time()
        and coalesce(current_setting('cdc_outbox.heartbeat', true), '') <> ''
    then
        perform pg_logical_emit_message(false, 'cdc-outbox.heartbeat', '');
        return null;
    end if;
    insert into "{heartbeats}" (number, id, previous, written_at, lsn, system)
    values (
        coalesce(last.number, 0) + 1, gen_random_uuid(), last.id, at, pg_current_wal_insert_lsn(),
        (select cast(system_identifier as text) from pg_control_system())
    )
    on conflict do nothing
    returning * into beat;
    if beat.number is null then  -- another session was faster
        return null;
    end if;
    perform set_config('cdc_outbox.heartbeat', 'written', false);
    content := json_build_object(
        'number', beat.number, 'previous', beat.previous, 'at', beat.written_at, 'lsn', beat.lsn,
        'started', pg_postmaster_start_time(), 'system', beat.system,
        'timeline', (select timeline_id from pg_control_checkpoint())
    );
    -- if has_table
    insert into "{outbox}" ("{id}", "{aggregate_type}", "{aggregate_id}", "{type}", "{payload}", "{sequence}")
    values (
        beat.id, 'heartbeat.' || pipeline, pipeline, 'Heartbeat', "{heartbeat_payload}", beat.number
    );
    -- The publication has inserts only: what is left would be for `prune` to clear away.
    delete from "{outbox}" where "{id}" = beat.id;
    -- end
    -- if emits
    perform pg_logical_emit_message(
        true, '{message_prefix}', cast(json_build_object("{heartbeat_fields}") as text)
    );
    -- end
    delete from "{heartbeats}" where written_at < at - interval '1 day' and number < beat.number;
    return beat.number;
end
$$;

-- name: grant_heartbeat_to_nobody
revoke all on function "{heartbeat}"(text, interval) from public;

-- name: create_publication
do $$
begin
    if not exists (select from pg_publication where pubname = '{publication_literal}') then
        create publication "{publication}" for table "{outbox}" with (publish = 'insert', "{via_root}");
    else
        if '{is_partitioned}' and not (select pubviaroot from pg_publication where pubname = '{publication_literal}') then
            alter publication "{publication}" set (publish_via_partition_root = true);
        end if;
        if not exists (
            select from pg_publication_tables
            where pubname = '{publication_literal}' and schemaname = '{schema_literal}' and tablename = '{name_literal}'
        ) then
            alter publication "{publication}" add table "{outbox}";
        end if;
    end if;
end
$$;

-- name: set_source
alter table "{heads}" alter column source set default '{source_literal}';

-- name: set_outbox_source
alter table "{outbox}" alter column "{source}" set default '{source_literal}';

-- name: create_partition
create table "{partition}" (like "{outbox}" including all);

-- name: attach_partition
-- Unlike `create table … partition of` this lets writers go on; they wait only if they write to the rest.
alter table "{outbox}" attach partition "{partition}" for values from ('{from_literal}') to ('{to_literal}');

-- name: lock_rest
-- What is counted below must still be so when the partition is attached, which takes this lock anyway.
lock table "{rest}" in access exclusive mode;

-- name: count_rest
select count(*) from "{rest}" where "{id}" >= '{from_literal}' and "{id}" < '{to_literal}';

-- name: create_empty_publication
do $$
begin
    if not exists (select from pg_publication where pubname = '{publication_literal}') then
        create publication "{publication}" with (publish = 'insert');
    end if;
end
$$;

-- name: add_header_column
do $$
begin
    -- Looked for first: `add column if not exists` waits for every reader and writer, also where there is nothing to do.
    if not exists (
        select from pg_attribute where attrelid = to_regclass('{table_literal}') and attname = '{column_literal}'
    ) then
        alter table "{outbox}" add column "{column}" text;
    end if;
end
$$;

-- name: drop_publication
do $$
begin
    if exists (
        select from pg_publication_rel as member
        join pg_publication as publication on publication.oid = member.prpubid
        where publication.pubname = '{publication_literal}' and member.prrelid <> coalesce(to_regclass('{table_literal}'), 0)
    ) then
        if exists (
            select from pg_publication_tables
            where pubname = '{publication_literal}' and schemaname = '{schema_literal}' and tablename = '{name_literal}'
        ) then
            alter publication "{publication}" drop table "{outbox}";
        end if;
    else
        drop publication if exists "{publication}";
    end if;
end
$$;
