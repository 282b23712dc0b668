"""Who leads: taking and keeping the lease, and following along while another daemon has it.

Lives here: everything about the lease, and what a follower does to be up to date when it takes over.
"""
