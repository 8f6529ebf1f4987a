"""``--context``: a named context supplies the options that a command was not given."""

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, cast

import click
from click.core import ParameterSource

from cdc_outbox.cli.contexts import Context, Contexts
from cdc_outbox.cli.contexts_file import read_contexts
from cdc_outbox.cli.output import say
from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import visible
from cdc_outbox.text_files.document import read_text_file

_NAME, _FILE = "cdc_outbox.context", "cdc_outbox.contexts"
_CONTEXT, _ADDRESSED = "cdc_outbox.context.read", "cdc_outbox.context.addressed"
_DSN_FILES = "cdc_outbox.dsn_files"
_DATABASES = {"database", "inbox_database"}
"""Addresses of options that take a DSN, which a file may hold as well."""


class ContextValue(click.Option):
    """An option that a context may give.

    What stands on the command line counts first, then a context that is named there, then the option's variable, then
    a context that a variable or the file names: who says ``--context production`` gets no part of anything else.

    Args:
        entry: What of a context it is; ``None`` where the context says nothing of it.
        address: Which of :meth:`Context.addresses` the command addresses by it; ``None`` for none.
    """

    def __init__(
        self,
        *arguments: Any,
        entry: Callable[[Context], Any],
        address: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self.entry = entry
        self.address = address

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Return what counts, and where it is from."""
        value, source = super().consume_value(ctx, opts)
        file, file_source = ctx.meta.get(_DSN_FILES, {}).get(self.name, (None, source))
        if file is not None and source is not ParameterSource.COMMANDLINE:
            field = f"{self.opts[0]}-file"
            value, source = read_text_file(file, field=field).strip(), file_source
            if not value:  # with an empty DSN, clients connect to a server on this machine
                raise ConfigError(f"{file} is empty; it must hold a DSN", field=field)
        elif file is not None and file_source is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"give either {self.opts[0]} or {self.opts[0]}-file")
        name, is_explicit = ctx.meta.get(_NAME, (None, False))
        if source is ParameterSource.COMMANDLINE or (source is ParameterSource.ENVIRONMENT and not is_explicit):
            return value, source
        context = _context(ctx, name)
        found = self.entry(context) if context is not None else None
        if found is None:
            return value, source
        ctx.meta.setdefault(_ADDRESSED, []).append(self.address)
        return found, ParameterSource.DEFAULT_MAP


class DsnFileOption(click.Option):
    """``--dsn-file`` beside ``--dsn``: a DSN with a password on the command line is seen by other users.

    Args:
        of: The option whose value the file holds.
    """

    def __init__(self, of: ContextValue) -> None:
        super().__init__(
            [f"{name}-file" for name in of.opts],
            metavar="FILE",
            type=click.Path(path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=self._note,
            help="A file that contains the DSN. Other users of the machine can read a DSN on the command line.",
        )
        self.of = of.name

    def _note(self, context: click.Context, _option: click.Parameter, value: Path | None) -> None:
        if value is not None:
            context.meta.setdefault(_DSN_FILES, {})[self.of] = (value, context.get_parameter_source(self.name or ""))


class ClusterOption(click.Option):
    """An option such as ``--connect-patience``, which says something of the cluster that another option leads to."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, is_eager=True, expose_value=False, callback=self._note, **options)

    @staticmethod
    def _note(context: click.Context, option: click.Parameter, value: Any) -> None:  # noqa: ANN401 - click's
        context.meta[f"cdc_outbox.{option.name}"] = value, context.get_parameter_source(option.name or "")


def said_of_cluster(context: click.Context, name: str) -> tuple[Any, ParameterSource | None]:
    """Return what a :class:`ClusterOption` says, ``None`` if nothing, and where it is from."""
    found: tuple[Any, ParameterSource | None] = context.meta.get(f"cdc_outbox.{name}", (None, None))
    return found


def take_contexts(command: click.Command) -> click.Command:
    """Add ``--context`` to a command, and to those inside it, if a context can have values for it."""
    if isinstance(command, click.Group):
        for each in command.commands.values():
            take_contexts(each)
    elif any(isinstance(each, ContextValue) for each in command.params) and _option not in command.params:
        values = [each for each in command.params if isinstance(each, ContextValue) and each.address in _DATABASES]
        command.params += [*map(DsnFileOption, values), _option, contexts_option]
        command.callback = _announcing(command.callback)
    return command


def contexts_of(context: click.Context) -> Contexts:
    """Return the contexts that a command knows: those of the file that ``--contexts`` names, if it does."""
    return read_contexts(named=context.meta.get(_FILE))


def _note(context: click.Context, option: click.Parameter, value: str | None) -> None:
    source = context.get_parameter_source(option.name or "")
    context.meta[_NAME] = (value, source is ParameterSource.COMMANDLINE)


def _note_file(context: click.Context, _option: click.Parameter, value: Path | None) -> None:
    context.meta[_FILE] = value


def _context(context: click.Context, name: str | None) -> Context | None:
    if _CONTEXT not in context.meta:
        contexts = contexts_of(context)
        chosen = name or contexts.default
        context.meta[_CONTEXT] = None if chosen is None else contexts.find(chosen)
    found: Context | None = context.meta[_CONTEXT]
    return found


def _announcing(callback: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a command that first prints its context, and the addresses that it takes from there."""

    @wraps(cast("Callable[..., Any]", callback))
    def announced(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - a command's own
        meta = click.get_current_context().meta
        context: Context | None = meta.get(_CONTEXT)
        if context is not None and _ADDRESSED in meta:
            addresses = context.addresses()
            leads = "; ".join(f"{each.replace('_', ' ')} {addresses[each]}" for each in meta[_ADDRESSED] if each)
            say(visible(f"context {context.name} of {context.file}: {leads}".removesuffix(": ")), err=True)
        return cast("Callable[..., Any]", callback)(*arguments, **options)

    return announced


def _names(context: click.Context, _option: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of contexts that a shell may offer; none if the file cannot be read."""
    try:
        known = contexts_of(context).known
    except ConfigError:
        return []
    return [name for name in sorted(known) if name.startswith(incomplete)]


_option = click.Option(
    ["--context"],
    metavar="NAME",
    is_eager=True,
    expose_value=False,
    callback=_note,
    shell_complete=_names,
    help="The context in cdc-outbox.yaml whose addresses are used.",
)

contexts_option = click.Option(
    ["--contexts"],
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    is_eager=True,
    expose_value=False,
    callback=_note_file,
    help="The file that defines the contexts. Default: cdc-outbox.yaml in the current folder, which must be trusted; "
    "if there is none, the user's own file.",
)
