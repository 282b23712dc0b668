"""State transitions of jobs, groups and bookings.

Lives here: transitions, deadlines, and the newest reports of workers. Both absorbing and enacting use them.
"""
