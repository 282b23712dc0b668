"""The database itself: tables, connections, transactions, migrations and notifications.

Lives here: everything that depends on SQLite or PostgreSQL. Nothing here knows what the rows mean.
"""
