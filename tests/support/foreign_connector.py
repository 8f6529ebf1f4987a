"""A connector that a team configured by hand, and the spec that describes it."""

from tests.support.configs import STRING

SECRET = "hunter2-Secr3t"


FOREIGN = {
    "name": "orders-connector",
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "tasks.max": "1",
    "topic.prefix": "shop",
    "database.hostname": "db.internal",
    "database.user": "debezium",
    "database.password": "${file:/run/secrets/db:password}",
    "database.dbname": "shop",
    "plugin.name": "pgoutput",
    "slot.name": "shop_slot",
    "publication.name": "shop_events",
    "publication.autocreate.mode": "filtered",
    "table.include.list": "sales.domain_events",
    "poll.interval.ms": "100",
    "max.batch.size": "512",
    "key.converter": STRING,
    "value.converter": STRING,
    "transforms": "events",
    "transforms.events.type": "io.debezium.transforms.outbox.EventRouter",
    "transforms.events.table.field.event.id": "event_id",
    "transforms.events.table.field.event.key": "entity_id",
    "transforms.events.table.field.event.payload": "body",
    "transforms.events.table.field.event.timestamp": "occurred_at",
    "transforms.events.route.by.field": "entity",
    "transforms.events.route.topic.replacement": "shop.${routedByValue}.v1",
    "transforms.events.table.fields.additional.placement": "kind:header:eventType,entity:header:entity,who:header:user",
}
"""A team's own, by hand; every message of it can be had from a spec."""


FOREIGN_SPEC = """\
# Made by `cdc-outbox adopt` from orders.json.
# It renders to an equivalent configuration, except for the findings of `adopt`.
version: 1
name: orders-connector
topic_prefix: shop

database:
  kind: postgresql
  host: "db.internal"
  port: 5432
  name: shop
  user: debezium
  password: "${file:/run/secrets/db:password}"
  slot: shop_slot
  publication: shop_events

outbox:
  schema: sales
  table: domain_events
  headers:
    entity: entity
    who: user
    occurred_at: null
  columns:
    id: event_id
    aggregate_type: entity
    aggregate_id: entity_id
    type: kind
    payload: body
    sequence: null
    source: null
    created_at: occurred_at

aggregates:  # not in the configuration: check the sequence modes
  order:
    sequence: none

topics:
  name: "shop.{aggregate_type}.v1"

overrides:
  extended.headers.enabled: true  # Debezium's default, as before
  max.batch.size: 512
  poll.interval.ms: 100
"""
