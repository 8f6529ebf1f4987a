"""What a server's catalog says of the tables, functions, triggers, publications and privileges in a database."""

import re
from typing import Any

import psycopg

_POSTGRESQL = {
    "column": """
        select format('%I.%I', n.nspname, c.relname), a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
            case when a.attnotnull then 'not null' end, 'default ' || pg_get_expr(d.adbin, d.adrelid),
            nullif('identity ' || cast(a.attidentity as text), 'identity '),
            nullif('generated ' || cast(a.attgenerated as text), 'generated '),
            'collation ' || nullif(cast(l.collname as text), 'default'), 'storage ' || cast(a.attstorage as text)
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
        left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
        left join pg_collation l on l.oid = a.attcollation
        where c.relkind in ('r', 'p', 'v', 'S') and a.attnum > 0 and not a.attisdropped and {own} order by 1, 2""",
    "table": """
        select format('%I.%I', n.nspname, c.relname), c.relkind::text, 'persistence ' || cast(c.relpersistence as text),
            'replica identity ' || cast(c.relreplident as text), array_to_string(c.reloptions, ','),
            case when c.relrowsecurity then 'row security' end,
            'partition by ' || pg_get_partkeydef(c.oid), pg_get_expr(c.relpartbound, c.oid), obj_description(c.oid)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p', 'v', 'S') and {own} order by 1""",
    "constraint": """
        select format('%I.%I', n.nspname, c.relname), o.conname, o.contype::text, pg_get_constraintdef(o.oid)
        from pg_constraint o join pg_class c on c.oid = o.conrelid join pg_namespace n on n.oid = c.relnamespace
        where o.contype <> 'n' and {own} order by 1, 2""",
    "index": """
        select format('%I.%I', n.nspname, c.relname), pg_get_indexdef(i.indexrelid)
        from pg_index i join pg_class c on c.oid = i.indrelid join pg_namespace n on n.oid = c.relnamespace
        where {own} order by 1, 2""",
    "trigger": """
        select format('%I.%I', n.nspname, c.relname), t.tgname, t.tgenabled::text, pg_get_triggerdef(t.oid)
        from pg_trigger t join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
        where not t.tgisinternal and {own} order by 1, 2""",
    "function": """
        select p.oid::regprocedure::text, pg_get_functiondef(p.oid) from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace where {own} order by 1""",
    "privilege": """
        select format('%I.%I', n.nspname, c.relname), coalesce(r.rolname, 'public'),
            string_agg(x.privilege_type, ', ' order by x.privilege_type)
        from pg_class c join pg_namespace n on n.oid = c.relnamespace, aclexplode(c.relacl) x
        left join pg_roles r on r.oid = x.grantee where {own} group by 1, 2 order by 1, 2""",
    "privilege on a column": """
        select format('%I.%I', n.nspname, c.relname), a.attname, r.rolname,
            string_agg(x.privilege_type, ', ' order by x.privilege_type)
        from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace,
            aclexplode(a.attacl) x left join pg_roles r on r.oid = x.grantee
        where {own} group by 1, 2, 3 order by 1, 2, 3""",
    "privilege on a function": """
        select p.oid::regprocedure::text, coalesce(r.rolname, 'public'), x.privilege_type
        from pg_proc p join pg_namespace n on n.oid = p.pronamespace, aclexplode(p.proacl) x
        left join pg_roles r on r.oid = x.grantee where {own} order by 1, 2, 3""",
    "privilege on a schema": """
        select n.nspname, coalesce(r.rolname, 'public'), string_agg(x.privilege_type, ', ' order by x.privilege_type)
        from pg_namespace n, aclexplode(n.nspacl) x left join pg_roles r on r.oid = x.grantee
        where {own} group by 1, 2 order by 1, 2""",
    "publication": """
        select p.pubname, concat(p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate), p.puballtables::text,
            p.pubviaroot::text, t.schemaname, t.tablename, array_to_string(t.attnames, ','), t.rowfilter
        from pg_publication p left join pg_publication_tables t using (pubname) order by 1, 5, 6""",
}  # fmt: skip
_OWN = "n.nspname !~ '^(pg_|information_schema)'"
_BOUND = re.compile(r"'\^?[0-9a-f]{8}-[0-9a-f-]*'")
_PARTITION = re.compile(r"_(?:\d{8}|\d{6}|\d{4}(?:_\d\d){1,2})(?:_\d+)?(?!\d)")


def postgresql_catalog(connection: "psycopg.Connection[Any]") -> list[str]:
    """Return a line for each object of the database that is not the server's own."""
    lines = []
    for kind, query in _POSTGRESQL.items():
        for row in connection.execute(query.replace("{own}", _OWN).encode()):
            texts = (str(value) for value in row if value is not None)
            lines += [f"{kind} {' | '.join(texts)}".rstrip()]
    return "\n".join(lines).splitlines()


def mariadb_catalog(query: Any, database: str) -> list[str]:
    """Return a line for each object of the database; ``query`` executes a statement and returns its rows.

    The texts of ``show create`` say of each column, key and option what the server understood.
    """
    lines = []
    of = f"where table_schema = '{database}' order by 1"
    tables = [row[0] for row in query(f"select table_name from information_schema.tables {of}")]  # noqa: S608
    for table in tables:
        [(_, text, *_)] = query(f"show create table `{table}`")
        lines += [f"table {text}"]
    for kind in ("function", "procedure"):
        for row in query(f"show {kind} status where db = '{database}'"):
            [(_, _, text, *_)] = query(f"show create {kind} `{row[1]}`")
            lines += [f"{kind} {re.sub('DEFINER=[^ ]+ ', '', str(text))}"]
    for row in query("show triggers"):
        lines.append(f"trigger {row[0]} {row[4]} {row[1]} on {row[2]}: {row[3]}")
    return re.sub(r" AUTO_INCREMENT=\d+", "", "\n".join(lines)).splitlines()


def mariadb_grants(query: Any, database: str) -> list[str]:
    """Return what the accounts may do whose names begin with that of the database."""
    accounts = query(f"select user, host from mysql.user where user like '{database}\\_%' order by 1, 2")  # noqa: S608
    grants = [row[0] for user, host in accounts for row in query(f"show grants for '{user}'@'{host}'")]
    return [re.sub(r" IDENTIFIED BY .*", "", grant) for grant in grants]


def without_dates(lines: list[str]) -> list[str]:
    """Return the lines with one in place of those that differ in dates alone, as partitions do."""
    return list(dict.fromkeys(_BOUND.sub("'<bound>'", _PARTITION.sub("_<part>", line)) for line in lines))
