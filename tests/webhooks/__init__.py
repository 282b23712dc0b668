"""Webhooks: real receivers, a virtual clock for pauses, a daemon that dies in between."""
