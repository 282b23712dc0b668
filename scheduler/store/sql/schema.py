"""All tables, indexes and constraints: the same on SQLite and PostgreSQL. `migrations/` builds what stands here.

Integers are 64 bits wide, floats are doubles, lists and mappings are JSON text that no query looks into but
for labels. States are text with a CHECK; reasons and kinds of events are vocabularies that grow with every
version and that no invariant hangs on, so they have none. Ids of jobs, intents, events and recurring jobs
come from the one row of `counters`: whoever writes locks it until its commit, so ids are never reused
and become visible in their order, which readers of events and intents rely on. Tokens of users and
records of requests, of which nobody needs that, are numbered by the database.
"""

from scheduler.store.sql import engine_tables, identity_tables, request_tables
from scheduler.store.sql.metadata import metadata

__all__ = ["engine_tables", "identity_tables", "metadata", "request_tables"]
