"""The nouns: frozen values, state enums and their transition tables. Standard library only."""
