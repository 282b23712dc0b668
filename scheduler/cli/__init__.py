"""`sched`, the command line: a client of the HTTP API, except for `serve`, `simulate` and `db`.

Every module imports only what parsing its commands takes; httpx, rich, yaml and the daemon are imported by
the function that needs them, since `sched hosts` is started again and again.
"""
