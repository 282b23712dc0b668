"""An elastic training of a wide & deep model on generated click-through records.

    wide_deep.py SEED RECORDS EPOCHS constant|scaled [SAMPLE_SECONDS]

Rank 0 writes a line of JSON per step: `step`, `size` of the group, `samples` seen so far, `at` (unix seconds), and now
and then the `auc` on records that are not trained on. The last line also has `wrong`: how many samples were not seen
exactly once per epoch.
"""

import json
import sys
import time

import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from benchmarks.clicks import BUCKETS, CROSSED, DENSE, FIELDS, VALUES, Clicks, auc, draw_clicks
from scheduler import elastic

TEST_RECORDS = 20_000
BATCH, PER_WORKER, BASE_WORKERS = 1024, 256, 4
RATE = 0.02
#: Evaluations per training.
EVALUATIONS = 40
#: Of a worker's computation: stands for the time that a larger model would compute.
SAMPLE_SECONDS = 0.12 / PER_WORKER
POLICIES: dict[str, elastic.BatchPolicy] = {
    "constant": elastic.ConstantBatch(BATCH),
    "scaled": elastic.ScaledBatch(PER_WORKER, base_workers=BASE_WORKERS, warmup_steps=20, rate="sqrt"),
}


class WideDeep(torch.nn.Module):
    """A weight per cross (wide) beside a network over embedded categories and dense features (deep).

    Cheng et al., "Wide & Deep Learning for Recommender Systems" (2016).
    """

    def __init__(self, embedding: int = 8, hidden: tuple[int, int] = (32, 16)) -> None:
        super().__init__()
        self.wide = torch.nn.Embedding(len(CROSSED) * BUCKETS, 1)
        self.embedded = torch.nn.Embedding(FIELDS * VALUES, embedding)
        torch.nn.init.zeros_(self.wide.weight)
        torch.nn.init.normal_(self.embedded.weight, std=0.1)
        first, second = hidden
        self.deep = torch.nn.Sequential(
            torch.nn.Linear(FIELDS * embedding + DENSE, first),
            torch.nn.ReLU(),
            torch.nn.Linear(first, second),
            torch.nn.ReLU(),
            torch.nn.Linear(second, 1),
        )

    def forward(self, records: Clicks) -> torch.Tensor:
        """The logarithm of the odds of a click, per record."""
        deep = self.deep(torch.cat([self.embedded(records.categories).flatten(1), records.dense], dim=1))
        return (self.wide(records.crosses).sum(dim=1) + deep).squeeze(1)


def main(seed: int, records: int, epochs: int, policy: str, sample_seconds: float = SAMPLE_SECONDS) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    drawn = draw_clicks(records + TEST_RECORDS, seed)
    data, test = drawn.rows(slice(records)), drawn.rows(slice(records, None))
    model = WideDeep()
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    sampler = elastic.ElasticDistributedSampler(records, batch=POLICIES[policy], seed=seed)
    seen = torch.zeros(records, dtype=torch.uint8)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler, seen=seen)
    every = records * epochs // EVALUATIONS

    def train(state: elastic.State) -> None:
        for epoch in state.epochs(epochs):
            for indices in state.batches():
                ends_at = time.monotonic() + sample_seconds * len(indices)
                optimizer.zero_grad()
                batch = data.rows(torch.tensor(indices, dtype=torch.long))
                binary_cross_entropy_with_logits(model(batch), batch.clicked, reduction="sum").backward()
                time.sleep(max(0.0, ends_at - time.monotonic()))
                dealt = state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                count(indices)
                samples = epoch * records + sampler.position
                evaluated = {"auc": evaluate()} if samples // every > (samples - dealt) // every else {}
                tell(samples=samples, **evaluated)
                state.commit()
        tell(samples=epochs * records, auc=evaluate(), wrong=int((state.seen != epochs).sum()))

    def count(indices: list[int]) -> None:
        """Adds this step's samples, of all workers, to the counter."""
        step = torch.zeros_like(state.seen)
        step[indices] += 1
        state.seen += state.all_reduce(step)

    def evaluate() -> float | None:
        if state.rank:
            return None
        with torch.no_grad():
            return auc(model(test), test.clicked)

    def tell(**values: float | None) -> None:
        if state.rank == 0:
            line = {"step": state.step, "size": state.world_size, "at": time.time(), **values}
            print(json.dumps(line), flush=True)

    elastic.run(train, state)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4], *map(float, sys.argv[5:]))
