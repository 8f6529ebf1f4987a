"""The relay: an outbox's events to Kafka, without Kafka Connect."""
