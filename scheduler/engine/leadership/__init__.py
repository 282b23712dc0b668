"""Leadership: taking and keeping the lease, and following while another daemon has it.

Lives here: everything about the lease, and the work of a follower that keeps it up to date.
"""
