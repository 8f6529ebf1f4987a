-- name: create_role
do $$
begin
    if not exists (select from pg_roles where rolname = '{role_literal}') then
        create role "{role}" "{attributes}";
    end if;
    execute format('{grant_literal}', current_database(), '{role_literal}');
end
$$;

-- name: use_schema
grant "{on_schema}" on schema "{schema}" to "{role}";

-- name: grant
grant "{actions}" on "{table}" to "{role}";

-- name: let_call
grant execute on function "{function}"(text, interval) to "{role}";

-- name: own_function
do $$
begin
    execute format('alter function %s(text, interval) owner to %I', '{function_literal}', '{role_literal}');
exception when undefined_function then
    null;  -- it is made by this role later
end
$$;

-- name: join
grant "{other}" to "{role}";

-- name: own_tables
do $$
-- With their partitions; nothing is locked where the owner is the right one.
declare
    part regclass;
begin
    for part in
        select distinct cast(relation.oid as regclass)
        -- An outbox without a table has only the others; it may get one later.
        from (select to_regclass(name) from unnest(array['{table_literals}']) as named (name)) as wanted (root)
        cross join lateral (select wanted.root union select relid from pg_partition_tree(wanted.root)) as tree (oid)
        join pg_class as relation on relation.oid = tree.oid
        where pg_get_userbyid(relation.relowner) <> '{role_literal}'
    loop
        execute format('alter table %s owner to %I', part, '{role_literal}');
    end loop;
end
$$;

-- name: own_publication
do $$
begin
    if (select pg_get_userbyid(pubowner) from pg_publication where pubname = '{publication_literal}') <> '{role_literal}' then
        alter publication "{publication}" owner to "{role}";
    end if;
end
$$;
