"""The local cluster: this machine as a node, and its workers as processes that outlive the daemon.

A supervisor process owns the workers; the daemon talks to it over a socket in the state directory.
"""
