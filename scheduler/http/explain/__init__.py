"""Why a job is as it is, since when, and what would change that: typed reasons of the engine, made into sentences."""
