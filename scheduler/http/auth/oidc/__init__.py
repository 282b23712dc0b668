"""Logins by OpenID Connect: the issuer's keys, what its tokens say, and who calls with them."""
