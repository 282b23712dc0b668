"""One rank of a group whose collectives run on the GPU; what befalls it is named on the command line.

Arguments: rank, size, what happens (see `EVENTS`), whether NCCL may be used although ranks share a GPU, and a folder
where rank 0 of each group says where it listens.
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

NAMES = "abcd"
#: How long a collective may take where a rank hangs.
TIMEOUT_SECONDS = 4.0
#: After which the group is shut from another thread, as the scheduler's list does it.
NOTICED_SECONDS = 1.0
#: Longer than torch waits for debugging dumps by default before it ends a process whose NCCL collective failed.
OUTLIVED_SECONDS = 66.0
#: Between two steps meanwhile.
PAUSE_SECONDS = 0.5
EVENTS = ("nothing", "dies", "dies-and-long-after", "hangs", "dies-while-connecting")


def main(rank: int, size: int, event: str, spread: bool, folder: Path) -> None:
    """Prints what a test looks for."""
    if spread:
        os.environ["NCCL_HOSTID"] = f"host-{rank}"
        os.environ["NCCL_SOCKET_IFNAME"] = "lo"

    import torch
    import torch.distributed as dist

    from scheduler.elastic.errors import GroupBroken
    from scheduler.elastic.group import cuda
    from scheduler.elastic.group.group import Group, form
    from scheduler.elastic.group.rendezvous_store import Meeting
    from scheduler.elastic.group.sockets import Connections
    from scheduler.elastic.membership.membership import Membership
    from scheduler.elastic.session import is_broken_group

    torch.ones(1, device="cuda")
    meeting = Meeting("127.0.0.1", "token")
    died = folder / "died"

    def formed(generation: int, members: str) -> Group:
        mine = members.index(NAMES[rank])
        told = folder / str(generation)
        if mine == 0:
            told.with_suffix(".new").write_text(meeting.endpoint)
            told.with_suffix(".new").rename(told)
        while not told.exists():
            time.sleep(0.01)
        timeout_seconds = TIMEOUT_SECONDS if event == "hangs" else 60.0
        connections = meeting.connections()
        if event == "dies-while-connecting" and generation == 1:
            threading.Thread(target=shut_after_death, args=(connections,), daemon=True).start()
        membership = Membership(generation, tuple(members), None)
        return form(told.read_text(), meeting.token, connections, membership, mine, 0, timeout_seconds, lambda: True)

    def reduced(group: Group) -> float:
        tensor = torch.ones(1 << 20, device="cuda")
        group.all_reduce(tensor)
        group.settle_device()
        return float(tensor[-1])

    def shut_after_death(connections: Connections) -> None:
        nonlocal began
        while not died.exists():
            time.sleep(0.01)
        time.sleep(NOTICED_SECONDS)
        began = time.monotonic()
        connections.shut()

    def die() -> None:
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)

    if event == "dies-while-connecting" and rank == size - 1:
        cuda.NcclGroup.connect = lambda _: die()  # type: ignore[method-assign]
    began = time.monotonic()
    try:
        group = formed(1, NAMES[:size])
        print(f"backends {dist.get_backend_config()}", flush=True)
        print(f"sum {reduced(group)}", flush=True)
        if event == "nothing":
            took = []
            for _ in range(5):
                started = time.monotonic()
                reduced(group)
                took.append(time.monotonic() - started)
            print(f"4 MiB in {min(took) * 1000:.2f} ms", flush=True)
            group.largest(0)  # who leaves earlier looks to the others as if it had died
            started = time.monotonic()
            group.dissolve()
            print(f"dissolved in {time.monotonic() - started:.2f} s", flush=True)
            return
        if rank == size - 1:
            time.sleep(0.5)
            if event == "hangs":
                time.sleep(3 * TIMEOUT_SECONDS)
                os._exit(0)
            die()
        began = time.monotonic()
        if event != "hangs":
            threading.Timer(0.5 + NOTICED_SECONDS, group.shut).start()
        while True:
            reduced(group)
    except (RuntimeError, GroupBroken) as error:
        if not is_broken_group(error):
            raise
        print(f"freed after {time.monotonic() - began:.2f} s: {type(error).__name__}: {str(error)[:200]}", flush=True)
    if event != "dies-while-connecting":
        group.shut()
        group.dissolve()
    group = formed(2, NAMES[: size - 1])
    print(f"then {reduced(group)}", flush=True)
    # All ranks take the same number of steps: each is a collective.
    for _ in range(round(OUTLIVED_SECONDS / PAUSE_SECONDS) if event == "dies-and-long-after" else 0):
        reduced(group)
        time.sleep(PAUSE_SECONDS)
    group.largest(0)
    print("ends well", flush=True)
    group.dissolve()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4] == "nccl", Path(sys.argv[5]))
