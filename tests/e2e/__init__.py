"""The whole product: a real daemon, real workers, and what happens to them."""
