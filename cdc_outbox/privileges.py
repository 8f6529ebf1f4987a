"""Roles and what each may do: said once, for the statements that grant it and for the check that looks for it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cdc_outbox.finding import Finding, Place, Severity
from cdc_outbox.migrations import Component
from cdc_outbox.sql import load
from cdc_outbox.table import TableName, dollar_quoted, literal, quote


@dataclass(frozen=True, slots=True, kw_only=True)
class Privilege:
    """What may be done with one table.

    Args:
        action: ``select``, ``insert``, ``update`` or ``delete``.
        columns: Which ones it is limited to; empty means the whole table.
    """

    table: TableName
    action: str
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.action} ({', '.join(map(quote, self.columns))})" if self.columns else self.action


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One of the parties, with no privilege that it could do without.

    Args:
        attributes: What it is created with.
        privileges: On tables of one schema, those of one table next to each other.
        owns: Tables that it creates or upgrades; an owner may do everything with them.
        owns_publication: Likewise; ``None`` where it owns none.
    """

    name: str
    attributes: str = "login"
    privileges: tuple[Privilege, ...] = ()
    owns: tuple[TableName, ...] = ()
    owns_publication: str | None = None

    @property
    def tables(self) -> tuple[TableName, ...]:
        """Those that it has privileges on, each once."""
        return tuple(dict.fromkeys(privilege.table for privilege in self.privileges))

    def statements(self) -> list[str]:
        """Return the statements that make the role; repeating them does no harm. A superuser runs them."""
        creates = bool(self.owns)
        names = {
            "role": quote(self.name),
            "role_literal": literal(self.name),
            "attributes": self.attributes,
            "on_database": "connect, create" if creates else "connect",
            "on_schema": "usage, create" if creates else "usage",
            "publication": quote(self.owns_publication or "none"),
            "publication_literal": literal(self.owns_publication or "none"),
        }
        schemas = dict.fromkeys(quote(table.schema) for table in (*self.tables, *self.owns) if table.schema is not None)
        said = [_block("create_role", names)]
        said += [_statement("use_schema", {**names, "schema": schema}) for schema in schemas]
        for table in self.tables:
            actions = ", ".join(str(privilege) for privilege in self.privileges if privilege.table == table)
            said.append(_statement("grant", {**names, "table": table.quoted, "actions": actions}))
        if self.owns:
            tables = ", ".join(literal(table.quoted) for table in self.owns)
            said.append(_block("own_tables", {**names, "table_literals": tables}))
        if self.owns_publication is not None:
            said.append(_block("own_publication", names))
        return said


def migrator_role(name: str, components: Iterable[Component], *, publication: str | None) -> Role:
    """Return the role that creates and upgrades components; it owns what it does that to."""
    tables = [table for component in components for table in (*component.tables, component.version_table)]
    return Role(name=name, owns=tuple(dict.fromkeys(tables)), owns_publication=publication)


@dataclass(frozen=True, slots=True)
class RoleFacts:
    """What a role may really do, with those of its tables that exist.

    Args:
        actions: Table → what it may do with all of it.
        column_actions: Table → action → the columns that it may do that with.
        owners: Table that it should own → who owns it.
    """

    actions: Mapping[TableName, frozenset[str]]
    column_actions: Mapping[TableName, Mapping[str, frozenset[str]]]
    owners: Mapping[TableName, str]


def check_role(role: Role, facts: RoleFacts | None) -> Iterator[Finding]:
    """Return what a role may not and should, and what it may and should not."""
    if facts is None:
        yield _finding("DB211", Severity.ERROR, role.name, "the role does not exist.")
        return
    for table, actions in facts.actions.items():
        columns = facts.column_actions[table]
        wanted = [privilege for privilege in role.privileges if privilege.table == table]
        missing = [str(privilege) for privilege in wanted if not _is_held(privilege, actions, columns)]
        if missing:
            message = f"it may not {', '.join(missing)} on {table}."
            yield _finding("DB212", Severity.ERROR, role.name, message)
        more = list(_more(wanted, actions, columns))
        if more:
            message = f"it may {', '.join(more)} on {table}, and need not."
            yield _finding("DB213", Severity.WARNING, role.name, message, "Revoke that.")
    for table, owner in facts.owners.items():
        if owner != role.name:
            message = f"it cannot upgrade {table}, which belongs to {owner}."
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
    code: str, severity: Severity, role: str, message: str, remedy: str = "Run what `cdc-outbox init --grants` prints."
) -> Finding:
    place = Place(document="database", path=role)
    return Finding(code=code, severity=severity, place=place, message=message, remedy=remedy)


def roles_script(roles: Iterable[tuple[str, Role]]) -> str:
    """Return the statements of some roles as SQL text; each role comes with a sentence about it."""
    parts = ["-- Passwords are yours to set: alter role … password '…', or \\password in psql."]
    for about, role in roles:
        parts.append("\n".join([f"-- {role.name}: {about}".replace("\n", " "), *role.statements()]))
    return "\n\n".join(parts)


def _statement(name: str, names: Mapping[str, str]) -> str:
    return load("postgresql", "roles")[name].render(names)


def _block(name: str, names: Mapping[str, str]) -> str:
    return f"do {dollar_quoted(_statement(name, names))};"
