"""Policies of published schedulers, to choose from and to compare with: `settings.policy.name`.

One file each, with its source. Its order, sizes and stops are a value (`rule.Rule`), from which the steps of the
ordinary planner make the plan (`plan`).
"""
