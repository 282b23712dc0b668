"""What a scenario may have in it: the features, each of which draws its part into a scenario.

A feature is a function of randomness and the scenario so far; `tests.faults.draw` has the table of all of them.
"""
