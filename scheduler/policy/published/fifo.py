"""fifo: first come, first served, at the preferred size; later jobs that fit into free slots start, too.

The order of arrival is the baseline of the literature. No job is stopped for an equal.
"""

from scheduler.policy.published.rule import Rule

RULE = Rule()
