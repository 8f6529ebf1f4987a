"""What may be wrong with a database, and what `preflight` says of it: a change, codes, and where they point."""

NAME = "preflight"
ROLE = "preflight_connector"
SLOT = f"{NAME}_outbox"
INSERT = (
    "insert into outbox (id, aggregatetype, aggregateid, type, payload)"
    " values (gen_random_uuid(), 'order', '1', 'x', '{}')"
)
MAKE_SLOT = f"select pg_create_logical_replication_slot('{SLOT}', 'pgoutput')"
OUTBOX = "public.outbox"
ONLY = f"alter publication {SLOT} set table outbox"


STATES = [
    ("drop table outbox", "DB301", OUTBOX),
    (f"drop publication {SLOT}; alter table outbox set unlogged", "DB302 DB401", OUTBOX),
    ("alter table outbox drop column sequence", "DB303", f"{OUTBOX}.sequence"),
    ("alter table outbox alter column created_at type timestamptz", "DB304", f"{OUTBOX}.created_at"),
    (
        "alter table outbox alter column payload type bytea using convert_to(cast(payload as text), 'UTF8')",
        "DB304",
        f"{OUTBOX}.payload",
    ),
    ("alter table outbox alter column aggregatetype type char(10)", "DB304", f"{OUTBOX}.aggregatetype"),
    (
        "create type kind as enum ('x'); alter table outbox alter column type type kind using cast(type as kind)",
        "DB304",
        f"{OUTBOX}.type",
    ),
    ("alter table outbox rename to old; create view outbox as select * from old", "DB305 DB408 DB203", OUTBOX),
    (
        (
            "drop table outbox; create foreign data wrapper w; create server s foreign data wrapper w;"
            "create foreign table outbox (id uuid) server s"
        ),
        "DB305 DB203",
        OUTBOX,
    ),
    (
        (
            "alter table outbox drop column traceparent;"
            "alter table outbox add column traceparent text generated always as (type) stored"
        ),
        "DB313",
        f"{OUTBOX}.traceparent",
    ),
    ("alter table outbox alter column id type varchar(20)", "DB314", f"{OUTBOX}.id"),
    ("alter table outbox_heads alter column source set default 'shop.1'", "DB333", f"{OUTBOX}_heads.source"),
    ("alter table outbox alter column aggregateid drop not null", "DB315", f"{OUTBOX}.aggregateid"),
    ("alter table outbox drop constraint outbox_pkey", "DB316", OUTBOX),
    (
        "alter table outbox drop constraint outbox_pkey; create unique index on outbox (id) where sequence > 0",
        "DB316",
        OUTBOX,
    ),
    (
        (
            "alter table outbox rename to old; create table every (like old including all) partition by range (id);"
            f"create table outbox partition of every default; grant select on outbox to {ROLE}; {ONLY}"
        ),
        "DB318",
        OUTBOX,
    ),
    ("create table child () inherits (outbox)", "DB319", OUTBOX),
    ("create rule mute as on insert to outbox do instead nothing", "DB326", OUTBOX),
    (
        (
            "create function mute() returns trigger language plpgsql as 'begin return null; end';"
            "create trigger mute before insert on outbox for each row execute function mute()"
        ),
        "DB327",
        OUTBOX,
    ),
    ("alter table outbox alter column payload type jsonb", "DB320", f"{OUTBOX}.payload"),
    (f"drop publication {SLOT}", "DB401", SLOT),
    (f"alter publication {SLOT} drop table outbox", "DB402", SLOT),
    (
        (
            "alter table outbox rename to old; create table outbox (like old) partition by range (id);"
            f"create table rest partition of outbox default; grant select on outbox to {ROLE}; {ONLY}"
        ),
        "DB402 DB316",
        SLOT,
    ),
    (f"alter publication {SLOT} set (publish = 'update')", "DB403 DB406", SLOT),
    (f"{ONLY} where (sequence > 1)", "DB404", SLOT),
    (f"{ONLY} (id, payload)", "DB405", SLOT),
    (f"alter publication {SLOT} set (publish = 'insert, truncate')", "DB406", SLOT),
    (
        (
            "create table billing (aggregatetype text, aggregateid text, payload text);"
            f"alter publication {SLOT} add table billing"
        ),
        "DB408",
        SLOT,
    ),
    (f"alter publication {SLOT} add table outbox_heads", "DB409", SLOT),
    (
        f"drop publication {SLOT}; create publication {SLOT} for all tables with (publish = 'insert')",
        "DB407",
        SLOT,
    ),
    (
        (
            f"drop publication {SLOT}; alter table outbox set unlogged;"
            f"create publication {SLOT} for all tables with (publish = 'insert')"
        ),
        "DB302 DB407",
        OUTBOX,
    ),
    (
        (f"drop publication {SLOT};create publication {SLOT} for tables in schema public with (publish = 'insert')"),
        "DB407",
        SLOT,
    ),
    (f"drop owned by {ROLE}; drop role {ROLE}", "DB201", ROLE),
    (f"alter role {ROLE} nologin", "DB202", ROLE),
    (f"alter role {ROLE} noreplication", "DB202", ROLE),
    (f"revoke all on outbox from {ROLE}", "DB203", ROLE),
    (f"revoke usage on schema public from {ROLE}", "DB203", ROLE),
    (
        f"revoke connect on database {NAME} from public, {ROLE}",
        "DB204",
        ROLE,
    ),
    (f"alter role {ROLE} valid until '2020-01-01'", "DB205", ROLE),
    ("alter table outbox enable row level security", "DB206", ROLE),
    (
        (f"alter table outbox enable row level security, force row level security;alter table outbox owner to {ROLE}"),
        "DB206",
        ROLE,
    ),
    (MAKE_SLOT.replace("pgoutput", "test_decoding"), "DB501", SLOT),
    (f"select pg_create_physical_replication_slot('{SLOT}')", "DB501 DB502", SLOT),
    (MAKE_SLOT.replace("'pgoutput'", "'pgoutput', false, true"), "DB509", SLOT),
    (INSERT, "DB511", SLOT),
    (f"{INSERT}; {MAKE_SLOT}", "DB511", SLOT),
]
