"""The SQL store, on SQLite and on a real PostgreSQL."""
