"""Policies that published schedulers had, to choose from and to compare with: `settings.policy.name`.

One file each, with its source. What it says of order, sizes and who stops is a value (`rule.Rule`); the steps of the
ordinary planner make the plan of it (`plan`).
"""
