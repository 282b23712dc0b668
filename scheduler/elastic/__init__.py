"""Makes a PyTorch training script elastic: workers come, go and die, training goes on from memory.

    from scheduler import elastic

    sampler = elastic.ElasticDistributedSampler(len(inputs), batch=64)
    state = elastic.State(model=model, optimizer=optimizer, sampler=sampler)

    def train(state):
        for epoch in state.epochs(10):
            for indices in state.batches():
                optimizer.zero_grad()
                loss = cross_entropy(model(inputs[indices]), targets[indices], reduction="sum")
                loss.backward()
                state.average_gradients(samples=len(indices), loss="sum")
                optimizer.step()
                state.commit()

    elastic.run(train, state)

`run` starts here; `State` is what survives; `ElasticDistributedSampler` deals each sample of an epoch exactly once;
`ConstantBatch` and `ScaledBatch` say what a resize does to the batch and the learning rate. Workers that do not step
together take their data from a `ShardQueue`. The contract with the scheduler is environment variables and HTTP; nothing
else of the scheduler is imported, and without one the same script runs as one process.

What needs torch is imported when it is asked for: parts of this package run where a second and 200 MB are too much.
"""

import gc
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scheduler.elastic.data.shard_source import Shard
    from scheduler.elastic.data.sharded_dataset import ShardedDataset
    from scheduler.elastic.data.shards import ShardQueue
    from scheduler.elastic.errors import ElasticError, UsageError
    from scheduler.elastic.run import run
    from scheduler.elastic.state import State
    from scheduler.elastic.training.batch import BatchPolicy, ConstantBatch, ScaledBatch, collate_empty, micro_batches
    from scheduler.elastic.training.sampler import ElasticDistributedSampler

__all__ = [
    "BatchPolicy",
    "ConstantBatch",
    "ElasticDistributedSampler",
    "ElasticError",
    "ScaledBatch",
    "Shard",
    "ShardQueue",
    "ShardedDataset",
    "State",
    "UsageError",
    "collate_empty",
    "micro_batches",
    "run",
]

#: The module that each name comes from.
_HOMES = {
    "BatchPolicy": "training.batch",
    "ConstantBatch": "training.batch",
    "ScaledBatch": "training.batch",
    "collate_empty": "training.batch",
    "micro_batches": "training.batch",
    "ElasticError": "errors",
    "UsageError": "errors",
    "run": "run",
    "ElasticDistributedSampler": "training.sampler",
    "Shard": "data.shard_source",
    "ShardedDataset": "data.sharded_dataset",
    "ShardQueue": "data.shards",
    "State": "state",
}

# What a script has imported by now, torch above all, stays until its end: the garbage collector need not go through it
# again and again while a worker starts.
gc.freeze()

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Imports one of the names above when it is used first."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        # Kept, so that this is asked once; it also takes the place that the module `run` has just given to itself.
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted(__all__)
