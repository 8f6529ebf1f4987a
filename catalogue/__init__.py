"""Extract the options of Debezium's plugins, store them, and write docs/options.md."""
