"""Privileges of the roles, for ``init --grants`` and ``init --check``; a connector's are preflight's subject."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cdc_outbox.databases.dialects import Dialect
from cdc_outbox.databases.migrations import Component
from cdc_outbox.databases.quoting import literal, quote, refuse_controls
from cdc_outbox.databases.sql import comment, load
from cdc_outbox.databases.table import TableName
from cdc_outbox.finding import Finding, Location, Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class Privilege:
    """What may be done with one table.

    Args:
        action: ``select``, ``insert``, ``update`` or ``delete``; on MySQL also what makes a table.
        columns: Which ones it is limited to; empty means the whole table.
    """

    table: TableName
    action: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        quote = self.table.dialect.quote
        return f"{self.action} ({', '.join(map(quote, self.columns))})" if self.columns else self.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One of the parties, with no privilege that it could do without.

    Args:
        name: On MySQL it may say from where: ``orders@10.0.0.%``; without, from anywhere.
        dialect: That of its tables.
        attributes: What it is created with on PostgreSQL.
        privileges: On tables of one schema, those of one table next to each other.
        everywhere: What it may do on the whole server, on MySQL.
        owns: Tables that it creates or upgrades on PostgreSQL; an owner may do everything with them.
        owns_publication: Likewise; ``None`` where it owns none.
        member_of: The role whose tables it may drop, on PostgreSQL.
        calls: Functions that it may call there; they take a text and an interval.
        owns_functions: Functions of the same kind that it replaces there.
    """

    name: str
    dialect: Dialect = Dialect.POSTGRESQL
    attributes: str = "login"
    privileges: tuple[Privilege, ...] = ()
    everywhere: tuple[str, ...] = ()
    owns: tuple[TableName, ...] = ()
    owns_publication: str | None = None
    member_of: str | None = None
    calls: tuple[TableName, ...] = ()
    owns_functions: tuple[TableName, ...] = ()

    def __post_init__(self) -> None:
        refuse_controls(self.name)

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Those that it has privileges on, each once."""
        return tuple(dict.fromkeys(privilege.table for privilege in self.privileges))

    @property
    def account(self) -> tuple[str, str]:
        """MySQL's user and host."""
        user, at, host = self.name.rpartition("@")
        return (user, host) if at else (self.name, "%")

    def statements(self) -> list[str]:
        """Return the statements that make the role; repeating them does no harm. A superuser runs them."""
        return list(self._on_postgresql() if self.dialect.features.has_owners else self._on_mysql())

    def _on_postgresql(self) -> Iterator[str]:
        creates = bool(self.owns)
        names = {
            "role": quote(self.name),
            "role_literal": literal(self.name),
            "attributes": self.attributes,
            "grant_literal": literal(f"grant connect{', create' * creates} on database %I to %I"),
            "on_schema": "usage, create" if creates else "usage",
            "publication": quote(self.owns_publication or "none"),
            "publication_literal": literal(self.owns_publication or "none"),
        }
        named = (*self.tables, *self.owns, *self.calls)
        schemas = dict.fromkeys(quote(table.schema) for table in named if table.schema is not None)
        yield _statement("create_role", names)
        for schema in schemas:
            yield _statement("use_schema", {**names, "schema": schema})
        yield from self._grants(names)
        for function in self.calls:
            yield _statement("let_call", {**names, "function": function.quoted})
        for function in self.owns_functions:
            yield _statement("own_function", {**names, "function_literal": literal(function.quoted)})
        if self.owns:
            tables = ", ".join(literal(table.quoted) for table in self.owns)
            yield _statement("own_tables", {**names, "table_literals": tables})
        if self.owns_publication is not None:
            yield _statement("own_publication", names)
        if self.member_of is not None:
            yield _statement("join", {**names, "other": quote(self.member_of)})

    def _on_mysql(self) -> Iterator[str]:
        names = {"role": "@".join(map(self.dialect.literal, self.account))}
        yield _statement("create_role", names, self.dialect)
        if self.everywhere:
            yield _statement("grant_everywhere", {**names, "actions": ", ".join(self.everywhere)}, self.dialect)
        yield from self._grants(names)

    def _grants(self, names: Mapping[str, str]) -> Iterator[str]:
        for table in self.tables:
            actions = ", ".join(str(privilege) for privilege in self.privileges if privilege.table == table)
            yield _statement("grant", {**names, "table": table.quoted, "actions": actions}, self.dialect)


def migrator_role(name: str, components: Iterable[Component], *, publication: str | None) -> Role:
    """Return the role that creates and upgrades components; it owns what it does that to.

    On MySQL nothing is owned: there it may create and alter the tables, and what ``references`` is good for is that
    their columns are shown to it.
    """
    parts = list(components)
    tables = dict.fromkeys(table for part in parts for table in (*part.tables, part.version_table))
    dialect = parts[0].dialect
    if dialect.features.has_owners:
        functions = tuple(function for part in parts for function in part.functions)
        return Role(name=name, owns=tuple(tables), owns_publication=publication, owns_functions=functions)
    versions = {part.version_table for part in parts}
    return Role(
        name=name,
        dialect=dialect,
        privileges=tuple(
            Privilege(table=table, action=action)
            for table in tables
            for action in (_VERSIONING if table in versions else _MAKING)
        ),
    )


_MAKING, _VERSIONING = ("create", "alter", "references"), ("create", "select", "insert", "update")


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """What a role may really do, with those of its tables that exist.

    Args:
        actions: Table → what it may do with all of it.
        column_actions: Table → action → the columns that it may do that with.
        owners: Table that it should own → who owns it.
        everywhere: What it may do on the whole server, on MySQL.
        is_member: Whether it is a member of the role that it should be one of.
        not_callable: Functions that it should be able to call and cannot, or that do not exist.
    """

    actions: Mapping[TableName, frozenset[str]]
    column_actions: Mapping[TableName, Mapping[str, frozenset[str]]]
    owners: Mapping[TableName, str]
    everywhere: frozenset[str] = frozenset()
    is_member: bool = True
    not_callable: tuple[TableName, ...] = ()


def check_role(role: Role, facts: RoleFacts | None) -> Iterator[Finding]:
    """Return the privileges that a role lacks, and those that it does not need."""
    if facts is None:
        yield _finding("DB211", Severity.ERROR, role.name, "the role does not exist.")
        return
    for table, actions in facts.actions.items():
        columns = facts.column_actions[table]
        wanted = [privilege for privilege in role.privileges if privilege.table == table]
        missing = [str(privilege) for privilege in wanted if not _is_held(privilege, actions, columns)]
        if missing:
            message = f"the role lacks {', '.join(missing)} on {table}."
            yield _finding("DB212", Severity.ERROR, role.name, message)
        more = list(_more(wanted, actions, columns))
        # A member has additional privileges through its membership.
        if more and role.member_of is None:
            message = f"the role does not need {', '.join(more)} on {table}."
            yield _finding("DB213", Severity.WARNING, role.name, message, "Revoke the privilege.")
    missing = [action for action in role.everywhere if action not in facts.everywhere]
    if missing:
        yield _finding("DB212", Severity.ERROR, role.name, f"the role lacks {', '.join(missing)} on *.*.")
    more = sorted(facts.everywhere.difference(role.everywhere))
    if more:
        message = f"the role does not need {', '.join(more)} on *.*."
        yield _finding("DB213", Severity.WARNING, role.name, message, "Revoke the privilege.")
    yield from _check_membership(role, facts)


def _check_membership(role: Role, facts: RoleFacts) -> Iterator[Finding]:
    """Return missing memberships, missing rights to execute functions, and tables of other owners."""
    for function in facts.not_callable:
        yield _finding("DB212", Severity.ERROR, role.name, f"the role cannot execute {function}.")
    if not facts.is_member:
        message = f"the role is not a member of {role.member_of}, so it cannot drop its tables."
        yield _finding("DB215", Severity.WARNING, role.name, message)
    for table, owner in facts.owners.items():
        if owner != role.name:
            message = f"the role cannot upgrade {table}, which belongs to {owner}."
            yield _finding("DB214", Severity.ERROR, role.name, message)


def _is_held(privilege: Privilege, actions: frozenset[str], columns: Mapping[str, frozenset[str]]) -> bool:
    held = columns.get(privilege.action, frozenset())
    return privilege.action in actions or bool(privilege.columns and held.issuperset(privilege.columns))


def _more(wanted: Iterable[Privilege], actions: frozenset[str], columns: Mapping[str, frozenset[str]]) -> Iterator[str]:
    whole = {privilege.action for privilege in wanted if not privilege.columns}
    part = {privilege.action: frozenset(privilege.columns) for privilege in wanted if privilege.columns}
    yield from sorted(actions - whole)
    for action, held in sorted(columns.items()):
        beyond = held - part.get(action, frozenset())
        if action not in whole | actions and beyond:
            yield f"{action} ({', '.join(sorted(beyond))})"


def _finding(
    code: str,
    severity: Severity,
    role: str,
    message: str,
    remedy: str = "Run the statements that `cdc-outbox init SPEC --grants` prints.",
) -> Finding:
    location = Location(document="database", path=role)
    return Finding(code=code, severity=severity, location=location, message=message, remedy=remedy)


def roles_script(roles: Iterable[tuple[str, Role]]) -> str:
    """Return the statements of some roles as SQL text; each role comes with a sentence about it."""
    parts: list[str] = []
    for about, role in roles:
        parts += [] if parts else [role.dialect.features.password_note or ""]
        parts.append("\n".join([comment(f"{role.name}: {about}"), *role.statements()]))
    return "\n\n".join(parts)


def _statement(name: str, names: Mapping[str, str], dialect: Dialect = Dialect.POSTGRESQL) -> str:
    return f"{load(dialect, 'roles')[name].render(names)};"
