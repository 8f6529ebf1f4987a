"""A pipeline as no target in particular has it: a connector's options, and its topics. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cdc_outbox.contract.topics import Topic
from cdc_outbox.debezium.render import rendered_options, topics_of
from cdc_outbox.debezium.render.options import RenderedOption
from cdc_outbox.errors import ConfigError
from cdc_outbox.redaction import hides
from cdc_outbox.spec import Spec
from cdc_outbox.text_files.document import suggestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """What every target is given.

    Args:
        options: All but the connector's name, class and number of tasks, in the order of ``cdc-outbox render``.
        topics: All that it writes to: its events', its heartbeats', and its schema history's where it has one.
    """

    name: str
    connector_class: str
    tasks: int
    options: tuple[RenderedOption, ...]
    topics: tuple[Topic, ...]

    def __post_init__(self) -> None:
        for option in self.options:
            if hides(option.name, option.value):
                raise ConfigError(
                    f"{option.name} contains a secret, which would be in every rendered file",
                    field=f"overrides.{option.name}",
                    hint="Write a reference that the worker resolves, such as ${env:NAME}.",
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place that configurations go to.

    Args:
        name: As ``cdc-outbox render --target`` takes it.
        settings: The settings that it requires or accepts beside the pipeline: name → meaning.
        render: Pipeline and settings → the text that the place takes. It raises a ``ConfigError`` that says why, where
            the place cannot express something; nothing is left out or changed silently.
    """

    name: str
    settings: Mapping[str, str]
    render: Callable[[Pipeline, Mapping[str, str]], str]


def pipeline_of(spec: Spec) -> Pipeline:
    """Return what a spec comes to.

    Raises:
        ConfigError: It cannot be rendered, or shows a secret.
    """
    options = {each.name: each for each in rendered_options(spec)}
    name, connector_class, tasks = (options.pop(option).value for option in ("name", "connector.class", "tasks.max"))
    return Pipeline(
        name=name,
        connector_class=connector_class,
        tasks=int(tasks),
        options=tuple(options.values()),
        topics=tuple(topics_of(spec)),
    )


def chosen(targets: Mapping[str, Target], name: str, settings: Mapping[str, str]) -> Target:
    """Return a target that knows these settings.

    Raises:
        ConfigError: There is no such target or setting, with those that there are.
    """
    target = targets.get(name)
    if target is None:
        hint = suggestion(name, list(targets), "Targets")
        raise ConfigError(f"there is no target {name!r}", field="--target", hint=hint)
    for setting in settings:
        if setting not in target.settings:
            hint = suggestion(setting, list(target.settings), "Its settings")
            raise ConfigError(f"the target {name} has no setting {setting!r}", field="--target-option", hint=hint)
    return target
