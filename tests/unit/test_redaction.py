"""A secret is hidden by its option's type, by its option's name, and by what it looks like."""

from functools import partial

import pytest

from cdc_outbox.connect.client import ConnectClient
from cdc_outbox.debezium import options
from cdc_outbox.debezium.diff import OptionChange
from cdc_outbox.redaction import MASK, SecretRedactor, enumerated, hides, shows_password, shows_secret
from tests.support.connect_server import Answer, Asked, answering
from tests.support.time_limits import cpu_seconds

SECRET = "tiger1-x9Q"
FORMS = [
    ("database.url", f"jdbc:oracle:thin:scott/{SECRET}@//db:1521/orders"),
    ("database.url", f'jdbc:oracle:oci:scott/"{SECRET}"@orders'),
    ("database.url", f"jdbc:sqlserver://db;user=sa;pwd={SECRET}"),
    ("database.url", f"jdbc:x://db?passwd={SECRET}"),
    ("database.url", f"jdbc:x://db?user=me;pass={SECRET}"),
    ("x.http.headers", f"Authorization: Bearer {SECRET}"),
    ("connection.passwd", SECRET),
    ("db_pwd", SECRET),
    ("http.auth.pass", SECRET),
    ("ssl.keystore.pem", SECRET),
    ("ssl.key.pem", SECRET),
    ("master.encryption.key", SECRET),
    ("aws.access.key.id", SECRET),
]
LONGER = [
    ("database.url", f"jdbc:x://me:{'x' * 5000}{SECRET}@db"),
    ("mongodb.connection.string", f"mongodb://me:p/{SECRET}@db:27017"),
    ("mongodb.connection.string", f"mongodb://me:p@{SECRET}@db:27017"),
    ("x.http.headers", f"Accept: */*, Authorization: Basic {SECRET}=="),
    ("x.some.text", f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----"),
]
"""What has more to its secret than the part that is looked for."""
HARMLESS = [
    ("database.url", "jdbc:oracle:thin:@//db:1521/orders"),
    ("database.url", "jdbc:oracle:thin:${env:LOGIN}@//db:1521/orders"),
    ("database.url", "jdbc:oracle:thin:scott/${env:PASSWORD}@//db:1521/orders"),
    ("database.url", "jdbc:postgresql://db:5432/orders?user=me@example.com"),
    ("mongodb.connection.string", "mongodb://a:27017,b:27017/?appName=me@x"),
    ("mongodb.connection.string", "mongodb://me:${env:PASSWORD}@db:27017"),
    ("x.http.headers", "Authorization: Bearer ${env:TOKEN}"),
    ("x.http.headers", "Accept: application/json"),
    ("bypass.mode", "on"),
    ("transforms.outbox.table.field.event.key", "aggregate_id"),
    ("http.auth.pass", "${env:PASSWORD}"),
]


@pytest.mark.parametrize(("option", "value"), FORMS + LONGER)
def test_a_secret_is_hidden_in_differences_and_traces(option: str, value: str) -> None:
    assert SECRET not in str(OptionChange(option, "x", value))
    veil = SecretRedactor()
    veil.remember_options({option: value})
    quoted = [] if (option, value) in LONGER else [SECRET, f"no login with {SECRET} at the server"]
    for said in (value, f"Invalid value {value} at the server", *quoted):
        assert SECRET not in veil.over(said)


@pytest.mark.parametrize("value", [value for _, value in FORMS + LONGER if value != SECRET])
def test_a_form_is_hidden_in_a_trace_of_what_nobody_remembers(value: str) -> None:
    said = SecretRedactor().over(f"ConfigException: Invalid value {value}")
    assert SECRET not in said
    assert MASK in said


@pytest.mark.parametrize(("option", "value"), HARMLESS)
def test_what_is_no_secret_is_shown(option: str, value: str) -> None:
    assert not hides(option, value)
    assert SecretRedactor().over(value) == value


def test_every_option_of_the_type_password_is_hidden() -> None:
    groups = [options.framework(), options.producer()]
    groups += [options.catalogue(each, at).options for each in options.CONNECTORS for at in options.versions(each)]
    names = {option.name for group in groups for option in group.values() if option.type == "password"}
    assert names > {"database.password", "ssl.truststore.certificates"}
    assert [name for name in sorted(names) if not hides(name, "x")] == []


def test_a_public_certificate_may_be_written_down() -> None:
    assert not shows_secret("producer.override.ssl.truststore.certificates", "-----BEGIN CERTIFICATE-----")


def test_a_password_by_its_type_is_hidden_whatever_its_plugin_calls_it() -> None:
    config = {"connector.class": "x.Y", "value.converter.ticket": SECRET, "plain": "plain-text"}

    def validate(_asked: Asked) -> Answer:
        types = {"value.converter.ticket": "PASSWORD", "plain": "STRING"}
        errors = [f"{SECRET} is no ticket for plain-text"]
        return 200, {
            "configs": [
                {"definition": {"name": name, "type": kind}, "value": {"name": name, "errors": errors}}
                for name, kind in types.items()
            ]
        }

    with answering(validate) as (url, _):
        client = ConnectClient(url)
        said = [str(finding) for finding in client.validate(config)]
        client.close()
    assert len(said) == 2
    assert all(f"{MASK} is no ticket for plain-text" in each for each in said)


@pytest.mark.parametrize("word", ["token", "://a:", "jdbc:oracle:thin:", "Bearer ", "password=", "://a:b@", "pass "])
def test_a_long_value_is_looked_through_in_time(word: str) -> None:
    def look(text: str) -> object:
        return hides("x", text), SecretRedactor().over(text), shows_password(text)

    assert cpu_seconds(partial(look, word * 20_000)) < 10, "it takes a tenth of a second"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"{{'password': '{SECRET}', 'user': 'me'}}", f"{{'password': '{MASK}', 'user': 'me'}}"),
        (f'{{"client_secret":"{SECRET}","x":1}}', f'{{"client_secret":"{MASK}","x":1}}'),
        (f'{{"api_token" : "a\\"{SECRET}", "x": "y"}}', f'{{"api_token" : "{MASK}", "x": "y"}}'),
        (rf'"{{\"password\": \"{SECRET}\", \"x\": 1}}"', rf'"{{\"password\": \"{MASK}\", \"x\": 1}}"'),
        (f"{{'token': b'{SECRET}'}}", f"{{'token': b'{MASK}'}}"),
        ('{"password": "${env:PASSWORD}"}', '{"password": "${env:PASSWORD}"}'),
        ("{'password': None, 'user': 'me'}", "{'password': None, 'user': 'me'}"),
        ("password: authentication failed", "password: authentication failed"),
    ],
)
def test_a_secret_under_its_name_in_json_or_a_dictionary_is_hidden(text: str, masked: str) -> None:
    assert SecretRedactor().over(text) == masked


@pytest.mark.parametrize(
    ("names", "total", "told"),
    [
        ([], None, ""),
        (["7"], 1, "7"),
        (["1", "2"], None, "1, 2"),
        (["1", "2", "3", "4", "5"], None, "1, 2, 3 and 2 more"),
        (["1", "2", "3"], 1_203, "1, 2, 3 and 1,200 more"),
    ],
)
def test_of_many_names_the_first_are_told(names: list[str], total: int | None, told: str) -> None:
    assert enumerated(names, 3, total=total) == told
