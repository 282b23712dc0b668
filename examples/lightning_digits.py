"""A Lightning script as it stands anywhere else: it runs unchanged as a job of fixed size.

Lightning wants to know how many machines and processes there are. Where torch's variables are set, as by the
scheduler or torchrun, `TorchElasticEnvironment` reads ranks and addresses from them.

    pip install lightning
    sched submit --workers 2 -- python examples/lightning_digits.py --epochs 5
"""

import argparse
import os

import lightning
import torch
from digits import TEST_SAMPLES, load_digits
from lightning.fabric.plugins.environments import TorchElasticEnvironment
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Digits(lightning.LightningModule):
    """A small network."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        images, labels = batch
        return cross_entropy(self.layers(images), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    lightning.seed_everything(0)

    inputs, targets = load_digits()
    training = TensorDataset(inputs[TEST_SAMPLES:], targets[TEST_SAMPLES:])
    here, everywhere = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), int(os.environ.get("WORLD_SIZE", "1"))
    trainer = lightning.Trainer(
        max_epochs=options.epochs,
        accelerator="auto",
        devices=here,
        num_nodes=everywhere // here,
        strategy="ddp",
        plugins=[TorchElasticEnvironment()] if "WORLD_SIZE" in os.environ else [],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    model = Digits()
    trainer.fit(model, DataLoader(training, batch_size=32, shuffle=True))
    with torch.no_grad():
        found = model.layers(inputs[:TEST_SAMPLES].to(model.device)).argmax(dim=1).cpu()
    accuracy = float((found == targets[:TEST_SAMPLES]).float().mean())
    if trainer.is_global_zero:
        print(f"accuracy {accuracy:.4f} on {trainer.world_size} workers", flush=True)


if __name__ == "__main__":
    main()
