"""What-if answers: a copy of the world goes on by itself, with the planner and the transitions of the engine.

Lives here: forecasts for users. Ticks do not depend on it.
"""
