"""A store for torchrun's c10d rendezvous outside of all workers: prints its port, serves until its stdin ends."""

import sys

from torch.distributed import TCPStore


def main() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    print(store.port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
