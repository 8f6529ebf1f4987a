"""Everything about Kafka Connect: rendering a configuration, checking it, deploying it, watching it."""
