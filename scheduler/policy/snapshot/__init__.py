"""The world as the planner reads it, in the order in which it decides; kept from one pass to the next.

Lives here: indices over jobs and what they hold (the queue, peers, usage, the table of possible victims), brought up to
date by what changed. Nothing here decides.
"""
