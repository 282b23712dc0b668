"""Requests to the Kubernetes API: connection, credentials, errors, documents, and lists kept in step by watches.

Nothing here knows workers.
"""
