"""An Accelerate script as it stands anywhere else: it runs unchanged as a job of fixed size.

Accelerate reads RANK, WORLD_SIZE, MASTER_ADDR and the like, which the scheduler sets; nothing here knows of it.

    pip install accelerate
    sched submit --workers 2 -- python examples/accelerate_digits.py --epochs 5
"""

import argparse

import torch
from accelerate import Accelerator
from digits import TEST_SAMPLES, load_digits
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=not torch.cuda.is_available())

    inputs, targets = load_digits()
    training = TensorDataset(inputs[TEST_SAMPLES:], targets[TEST_SAMPLES:])
    test_inputs = inputs[:TEST_SAMPLES].to(accelerator.device)
    test_targets = targets[:TEST_SAMPLES].to(accelerator.device)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(training, batch_size=32, shuffle=True))
    for _ in range(options.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            accelerator.backward(cross_entropy(model(images), labels))
            optimizer.step()
    with torch.no_grad():
        accuracy = float((model(test_inputs).argmax(dim=1) == test_targets).float().mean())
    if accelerator.is_main_process:
        print(f"accuracy {accuracy:.4f} on {accelerator.num_processes} workers", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
