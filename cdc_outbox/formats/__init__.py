"""Payloads and envelopes: JSON, bytes, CloudEvents, JSON Schemas, and other people's outboxes."""
