"""A script of Horovod Elastic as Horovod's own documents have it: state in memory, a commit at each step.

Nothing here knows of the scheduler but the directory of the checkpoint, which is for a job that is stopped as a whole.

    sched submit --runtime horovod --workers 1-4 -- python examples/horovod_digits.py --epochs 20
    horovodrun -np 2 python examples/horovod_digits.py                   # the same without a scheduler
"""

import argparse
import os
from pathlib import Path

import horovod.torch as hvd
import torch
from digits import TEST_SAMPLES, load_digits
from torch.nn.functional import cross_entropy

BATCH = 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs, targets = load_digits()
    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)).to(device)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters())
    training = torch.utils.data.TensorDataset(inputs[TEST_SAMPLES:], targets[TEST_SAMPLES:])
    sampler = hvd.elastic.ElasticSampler(training)

    checkpoint = Path(os.environ.get("SCHED_CHECKPOINT_DIR", ".")) / "digits-horovod.pt"
    epochs_done = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(saved["model"])
        sgd.load_state_dict(saved["optimizer"])
        epochs_done = saved["epochs"]

    @hvd.elastic.run
    def train(state: hvd.elastic.TorchState) -> None:
        while state.epoch < options.epochs:
            # Made anew after each change of the workers: the sampler then deals what is left of the epoch.
            loader = torch.utils.data.DataLoader(training, batch_size=BATCH // hvd.size(), sampler=sampler)
            for batch, (images, labels) in enumerate(loader):
                optimizer.zero_grad()
                cross_entropy(model(images.to(device)), labels.to(device)).backward()
                optimizer.step()
                sampler.record_batch(batch, loader.batch_size)
                state.commit()
            state.epoch += 1
            sampler.set_epoch(state.epoch)
            if hvd.rank() == 0:
                # Renamed when it is whole: the processes may be stopped at any moment.
                partial = checkpoint.with_suffix(".new")
                torch.save({"model": model.state_dict(), "optimizer": sgd.state_dict(), "epochs": state.epoch}, partial)
                partial.rename(checkpoint)
            state.commit()

    train(hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=epochs_done))
    if hvd.rank() == 0:
        with torch.no_grad():
            found = model(inputs[:TEST_SAMPLES].to(device)).argmax(dim=1).cpu()
        accuracy = float((found == targets[:TEST_SAMPLES]).float().mean())
        print(f"accuracy {accuracy:.4f} on {hvd.size()} workers", flush=True)


if __name__ == "__main__":
    main()
