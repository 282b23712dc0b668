"""What the driver's `ssh` and a worker say to each other on one signed connection. Standard library only.

    ssh → worker   {"command": […], "variables": {…}}
    worker → ssh   {"started": true}
    worker → ssh   {"exit": status, "failed": whether the worker ends because of it}

The end of the connection is the end of the process.
"""

import socket

PURPOSE = b"horovod processes"
#: For the first words of a connection.
HELLO_SECONDS = 10.0


def watch_for_loss(connection: socket.socket) -> None:
    """Has the kernel find out within some 15 seconds that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 2)):
        if hasattr(socket, option):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
