"""SQL databases: tables, statements, drivers, roles, and what a server says about itself."""
