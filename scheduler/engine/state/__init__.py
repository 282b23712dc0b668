"""The ways that jobs, groups and bookings go from state to state.

Lives here: transitions, deadlines, and what workers said last. Both absorbing and enacting use them.
"""
