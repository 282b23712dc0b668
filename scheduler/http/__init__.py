"""The HTTP API: requests become stored intents, reads come from SQL or from the board. No decision is made here."""
