"""The secret of a webhook, and the key that it stands for."""

import base64
import binascii

#: Secrets in the form of Standard Webhooks begin with it; the key in base64 follows.
PREFIX = "whsec_"


def key_of(secret: str) -> bytes:
    """The key of the signature. Raises `ValueError` for a secret with the prefix that holds no base64."""
    if not secret.startswith(PREFIX):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        raise ValueError(f"what follows {PREFIX} is not base64") from None


def with_a_key(secret: str) -> str:
    """The secret, checked. Raises `ValueError`."""
    if len(key_of(secret)) < 16:
        raise ValueError("the key must have at least 16 bytes")
    return secret
