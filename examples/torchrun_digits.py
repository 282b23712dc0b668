"""A script for torchrun that survives a change of its workers: it goes on from the checkpoint of the last epoch.

Nothing here knows of the scheduler but the directory of the checkpoint.

    sched submit --runtime torchrun --workers 1-4 -- torchrun examples/torchrun_digits.py --epochs 20
    torchrun --nproc-per-node 2 examples/torchrun_digits.py              # the same without a scheduler
"""

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from digits import TEST_SAMPLES, load_digits
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")

    inputs, targets = load_digits()
    training = TensorDataset(inputs[TEST_SAMPLES:], targets[TEST_SAMPLES:])
    sampler = DistributedSampler(training)
    loader = DataLoader(training, batch_size=64 // dist.get_world_size(), sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    checkpoint = Path(os.environ.get("SCHED_CHECKPOINT_DIR", ".")) / "digits.pt"
    epochs_done = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        epochs_done = saved["epochs"]

    parallel = DistributedDataParallel(model)
    for epoch in range(epochs_done, options.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            cross_entropy(parallel(images.to(device)), labels.to(device)).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            # Renamed when it is whole: the processes may be stopped at any moment.
            partial = checkpoint.with_suffix(".new")
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}, partial)
            partial.rename(checkpoint)
    if dist.get_rank() == 0:
        with torch.no_grad():
            found = model(inputs[:TEST_SAMPLES].to(device)).argmax(dim=1).cpu()
        accuracy = float((found == targets[:TEST_SAMPLES]).float().mean())
        print(f"accuracy {accuracy:.4f} on {dist.get_world_size()} workers", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
