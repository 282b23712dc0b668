"""An elastic training on the GPU that counts how often it has seen each sample, and tells what its model holds.

Arguments: a file (while it exists, steps take a while), "ddp" or "average", the number of epochs, and "nccl" where the
workers are to be taken for ones of several hosts, so that NCCL connects them although they share a GPU.
"""

import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]
if sys.argv[4] == "nccl":
    os.environ["NCCL_HOSTID"] = os.environ["SCHED_WORKER_ID"]
    os.environ["NCCL_SOCKET_IFNAME"] = "lo"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from scheduler import elastic  # noqa: E402

SAMPLES, BATCH = 640, 64


def main(slow: Path, with_ddp: bool, epochs: int) -> None:
    """Learns a sum of its inputs."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = torch.randn(SAMPLES, 16, device="cuda")
    sampler = elastic.ElasticDistributedSampler(SAMPLES, batch=BATCH)
    seen = torch.zeros(SAMPLES, dtype=torch.int32, device="cuda")
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, seen=seen)

    def holds() -> str:
        return f"{sum(parameter.double().sum().item() for parameter in model.parameters()):.9f}"

    def train(state: elastic.State) -> None:
        print(f"rank {state.rank} of {state.world_size}: {dist.get_backend_config()}", flush=True)
        print(f"begins at {state.step} with {holds()}", flush=True)
        trained = DistributedDataParallel(model, device_ids=[0]) if with_ddp else model
        for _ in state.epochs(epochs):
            for indices in state.batches():
                optimizer.zero_grad()
                outputs = trained(inputs[indices])
                (outputs - inputs[indices].sum(1, keepdim=True)).square().mean().backward()
                if not with_ddp:
                    state.average_gradients(len(indices))
                optimizer.step()
                step = torch.zeros_like(state.seen)
                step[indices] += 1
                state.seen += state.all_reduce(step)
                if slow.exists():
                    time.sleep(0.2)
                print(f"commit {state.step + 1} of {state.world_size} with {holds()}", flush=True)
                state.commit()
        if state.rank == 0:
            print(f"every sample seen {state.seen.unique().tolist()} times", flush=True)

    elastic.run(train, state)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2] == "ddp", int(sys.argv[3]))
