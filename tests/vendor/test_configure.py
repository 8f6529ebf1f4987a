"""What Connect's own validation accepts, and the plugins then do not take."""

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.debezium.render import render
from cdc_outbox.errors import StackError
from cdc_outbox.spec import parse_spec
from cdc_outbox.testing import Stack
from cdc_outbox.testing.configure import ConfigureCheck
from tests.support.profiles import PROFILES
from tests.support.specs import MINIMAL, ORDERS

EVENT_ROUTER = "io.debezium.transforms.outbox.EventRouter"
STRING = "org.apache.kafka.connect.storage.StringConverter"


def config(**options: str) -> dict[str, str]:
    rendered = render(parse_spec(ORDERS.read_text()))
    return rendered | {name.replace("__", "."): value for name, value in options.items()}


def test_what_a_spec_renders_is_taken_by_every_plugin(configure_check: ConfigureCheck) -> None:
    modes = [f"mode: message{PROFILES['expanded']}", *(f"mode: keep{profile}" for profile in PROFILES.values())]
    specs = [render(parse_spec(f"{MINIMAL}outbox: {{{mode}}}\n")) for mode in modes]
    assert "transforms.decode.type" in specs[0]
    for rendered in (config(), *specs):
        assert configure_check.refusals(rendered) == []


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"transforms__outbox__table__op__invalid__behavior": "nope"}, "transforms.outbox"),
        ({"transforms__outbox__route__topic__regex": "[[a"}, "transforms.outbox"),
        ({"transforms__outbox__table__fields__additional__placement": "type"}, "transforms.outbox"),
        ({"predicates__isOutbox__pattern": "[[a"}, "predicates.isOutbox"),
        ({"transforms__outbox__type": "org.example.Nothing"}, "transforms.outbox"),
        ({"transforms__outbox__predicate": "isNothing"}, "transforms.outbox.predicate"),
        ({"key__converter": "org.apache.kafka.connect.json.JsonConverter", "key__converter__schemas__enable": "maybe"},
         "key.converter"),
        ({"header__converter": STRING, "header__converter__converter__encoding": "utf-99"}, "header.converter"),
    ],
)  # fmt: skip
def test_what_a_plugin_does_not_take_is_told_with_its_place(
    configure_check: ConfigureCheck, options: dict[str, str], place: str
) -> None:
    [refusal] = configure_check.refusals(config(**options))
    assert refusal.option == place
    assert refusal.error
    assert refusal.message


def test_connects_validation_accepts_what_the_router_refuses(
    outbox_stack: Stack, configure_check: ConfigureCheck
) -> None:
    broken = config(transforms__outbox__table__op__invalid__behavior="nope")
    client = ConnectClient(outbox_stack.connect_cluster)
    told = [finding for finding in client.validate(broken) if "transforms" in finding.location.path]
    client.close()
    assert told == []
    [refusal] = configure_check.refusals(broken)
    assert refusal.error == "org.apache.kafka.common.config.ConfigException"


def test_every_refusal_of_a_configuration_is_told_at_once(configure_check: ConfigureCheck) -> None:
    refusals = configure_check.refusals(
        config(transforms__outbox__route__topic__regex="[[a", predicates__isOutbox__pattern="[[a", value__converter="x")
    )
    assert {refusal.option for refusal in refusals} == {"value.converter", "transforms.outbox", "predicates.isOutbox"}


def test_a_column_converter_is_configured_by_the_connectors_own_classes(configure_check: ConfigureCheck) -> None:
    [refusal] = configure_check.refusals(config(converters="mine", mine__type="org.example.Nothing"))
    assert (refusal.option, refusal.error) == ("converters.mine", "java.lang.ClassNotFoundException")


def test_the_check_says_when_it_does_not_run(outbox_stack: Stack) -> None:
    with pytest.raises(StackError, match="not running"):
        ConfigureCheck(outbox_stack.jvm).refusals({})
