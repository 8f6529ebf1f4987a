"""Kafka's clients: settings, errors, topics and records."""
