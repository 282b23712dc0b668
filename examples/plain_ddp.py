"""An ordinary torch.distributed script, as it stands anywhere else: it runs unchanged as a job of fixed size.

The scheduler sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; nothing here knows of it.

    sched submit --name plain --workers 2 -- python examples/plain_ddp.py --steps 50
"""

import argparse

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    slope = torch.arange(8.0, device=device)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(rank)
    for step in range(options.steps):
        inputs = torch.randn(32, 8, generator=generator).to(device)
        loss = (model(inputs).squeeze(1) - inputs @ slope).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 9:
            print(f"step {step + 1} of {options.steps} on {size} workers: loss {loss.item():.4f}", flush=True)
    # A rank that ends while another is still connected may take that one down with it.
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
