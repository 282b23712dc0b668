"""Which running jobs grow or shrink where no more important job needs what they hold.

Lives here: growth on idle slots, rebalancing among equals, giving back workers that gain nothing, and leaving nodes and
slots that take no workers any more.
"""
