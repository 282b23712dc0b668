"""Why the planner decided as it did, found by planning again with something changed.

Lives here: answers to users' questions about a plan. No decision depends on them.
"""
