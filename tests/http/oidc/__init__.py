"""Logins by OpenID Connect, with a real issuer and a served site."""
