"""A cluster under a virtual clock: nodes and workers that behave, and fail, as told."""
