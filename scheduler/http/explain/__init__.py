"""Explanations of jobs: the engine's typed reasons as sentences, since when they hold, and possible remedies."""
