"""Which running jobs grow or shrink where nobody more important needs what they hold.

Lives here: growth on idle slots, rebalancing among equals, giving back what gains nothing, and leaving nodes and slots
that take no workers any more.
"""
