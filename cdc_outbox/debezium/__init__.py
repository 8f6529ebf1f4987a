"""Knowledge about Debezium and Kafka Connect. Pure: nothing here talks to a cluster."""
