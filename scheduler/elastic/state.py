"""The training state that survives resizes, deaths and stops. Imports torch."""

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import torch
from torch.utils.data import DataLoader

from scheduler.elastic.errors import UsageError
from scheduler.elastic.group.group import Group
from scheduler.elastic.training.arguments import amount, shown
from scheduler.elastic.training.boundary import Boundary
from scheduler.elastic.training.components import require_component, require_state
from scheduler.elastic.training.learning_rate import RateScaler
from scheduler.elastic.training.metrics import Metrics
from scheduler.elastic.training.parallel import NOTHING, Hook, Told
from scheduler.elastic.training.sampler import ElasticDistributedSampler
from scheduler.elastic.training.snapshot import Snapshot
from scheduler.elastic.training.throughput import Pace
from scheduler.elastic.training.updates import Updates

#: Stands for an item of a loader that has no more.
_ENDED = object()


class State:
    """All that a training run needs to go on: what is not in here is lost at a resize.

    Args:
        model, optimizer, lr_scheduler: as in any PyTorch script. On a GPU, move the model there first.
        sampler: an `ElasticDistributedSampler`; its position is part of the state.
        values: anything else. An object with `state_dict` and `load_state_dict` is kept through these; a tensor or a
            value of an allowed type (plain values, lists, dicts, numpy's; docs/elastic.md lists them) becomes an
            attribute: `State(best=0.0)` gives `state.best`, to read and to assign.

    `step` counts the commits of the whole run, `epoch` the finished epochs.
    """

    _own: frozenset[str] = frozenset()

    def __init__(
        self,
        *,
        model: torch.nn.Module | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        lr_scheduler: Any = None,
        sampler: ElasticDistributedSampler | None = None,
        **values: Any,
    ) -> None:
        self.step = 0
        self.epoch = 0
        self._values: dict[str, Any] = {}
        self._components: dict[str, Any] = {}
        given = {"model": model, "optimizer": optimizer, "lr_scheduler": lr_scheduler, "sampler": sampler, **values}
        for name, value in given.items():
            if hasattr(type(self), name) or name in ("step", "epoch"):
                raise UsageError(f"{name!r} is reserved by State: use another name")
            if name not in values and value is not None:
                require_component(name, value)
            if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
                self._components[name] = value
            elif name in values:
                self._values[name] = value
        self._sampler = sampler
        policy = sampler.policy if sampler is not None else None
        self._updates = Updates(optimizer, policy) if optimizer is not None else None
        self._metrics = Metrics()
        self._snapshot = Snapshot()
        self._committed_step = -1
        self._voted: bool | None = None
        #: Samples of the step in hand, on all ranks; whether these were told; those of earlier steps since a commit.
        self._in_hand = 0
        self._averaged = False
        self._since_commit = 0
        self._pace = Pace()
        self._group: Group | None = None
        self._boundary: Boundary | None = None
        self._resized_from: float | None = None
        self._boundary_at: float | None = None
        self._own = frozenset(vars(self)) | {"_own"}

    def __getattr__(self, name: str) -> Any:
        for kept in ("_values", "_components"):
            found = self.__dict__.get(kept, {})
            if name in found:
                return found[name]
        raise AttributeError(f"the state has no {name!r}: pass it to State(...) to keep it")

    def __setattr__(self, name: str, value: Any) -> None:
        if not self._own or name in self._own:
            object.__setattr__(self, name, value)
        elif name in self._values:
            self._values[name] = value
        else:
            raise AttributeError(f"the state has no value {name!r}: pass it to State({name}=...) to keep it")

    @property
    def rank(self) -> int:
        """This worker's rank in the current group."""
        return self._group.rank if self._group is not None else 0

    @property
    def world_size(self) -> int:
        """Size of the current group."""
        return self._group.size if self._group is not None else 1

    @property
    def generation(self) -> int:
        """The generation of the current group; 0 outside of `run`."""
        return self._group.generation if self._group is not None else 0

    @property
    def noise_scale(self) -> float | None:
        """The gradient noise scale, in samples: where a batch is as much signal as noise; None before it is known.

        Measured by `average_gradients` or under `DistributedDataParallel`, and smoothed over some hundred steps.
        """
        return self._updates.noise_scale if self._updates is not None else None

    @property
    def efficiency(self) -> float | None:
        """What a sample of the present batch brings, against one of a single worker's batch; None before it is known.

        Reported to the scheduler, which counts throughput times efficiency.
        """
        return self._updates.efficiency if self._updates is not None else None

    @property
    def base_steps(self) -> float:
        """How many steps at the base size the training so far is worth, by its batch policy."""
        return self._rates().base_steps

    def step_schedule(self) -> None:
        """Steps `lr_scheduler` as often as it takes to keep up with `base_steps`: not at all, once or several times.

        Call it after `optimizer.step()`, in place of `lr_scheduler.step()`, where a schedule counts steps rather than
        epochs: it then ends where it would at the base size, whatever the sizes in between.
        """
        schedule = self._components.get("lr_scheduler")
        if schedule is None:
            raise UsageError("step_schedule() needs the schedule: pass lr_scheduler to State")
        for _ in range(self._rates().take_schedule_steps()):
            schedule.step()

    def _rates(self) -> RateScaler:
        if self._updates is None or self._updates.rates is None:
            raise UsageError("the batch policy counts steps: pass an optimizer and a sampler to State")
        return self._updates.rates

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs still to do, beginning with the one that the state stands in.

        What the body does after its batches (evaluate, print) is done once per epoch, and once more only where a
        worker died during it.
        """
        while self.epoch < count:
            if self._sampler is not None:
                self._sampler.set_epoch(self.epoch)
            yield self.epoch
            self.epoch += 1
            if self._sampler is not None:
                self._sampler.set_epoch(self.epoch)
            self.commit()

    def batches(self, loader: Iterable[Any] | None = None) -> Iterator[Any]:
        """What is left of the epoch, one item per step: from the loader, or lists of this rank's sample indices.

        The loader must have the state's sampler as its `batch_sampler`. The item in hand counts as consumed by the next
        `commit`, so commit at the end of the loop's body.
        """
        if self._sampler is None:
            raise UsageError("batches() needs a sampler: pass one to State")
        if type(loader) is DataLoader and loader.batch_sampler is not self._sampler:
            raise UsageError("batches() needs a loader of the state's sampler: DataLoader(..., batch_sampler=sampler)")
        steps = len(self._sampler)
        source = iter(self._sampler if loader is None else loader)
        for step in range(steps):
            item = next(source, _ENDED)
            if item is _ENDED:
                raise UsageError(f"the loader of batches() ended after {step} of {steps} steps of its sampler")
            self._end_step()
            self._in_hand = self._sampler.advance()
            self._first_step_begins()
            if self._updates is not None:
                self._updates.deal(self._sampler.share, self._in_hand)
            yield item

    def average_gradients(self, samples: int, loss: Literal["mean", "sum"] = "mean") -> int:
        """Makes the gradients those of the mean loss over all ranks' samples of this step; a collective.

        Call it between the last `backward` and `optimizer.step`, on every rank, also where the share was empty and
        there was no `backward`. A parameter without a gradient counts as one of zeros.

        Args:
            samples: how many samples this rank's gradients are of.
            loss: whether the loss was a mean or a sum over these. After several `backward` calls in a step (gradient
                accumulation) only sums add up to the right thing.
        Returns:
            how many samples all ranks had together.
        """
        if self._updates is None:
            raise UsageError("average_gradients() needs the optimizer: pass it to State")
        if self._boundary is None or self._group is None:
            raise UsageError("average_gradients() only works inside the function passed to run()")
        if loss not in ("mean", "sum"):
            raise UsageError(f"loss must be mean or sum, not {shown(loss)}")
        amount("samples of average_gradients()", samples, zero=True)
        total, self._voted = self._updates.average(self._group, samples, loss == "sum", self._boundary.wants_change())
        if self._averaged:
            self._end_step()
        self._in_hand, self._averaged = total, True
        return total

    def measured(self, hook: Hook) -> Hook:
        """A communication hook of the script's own for `DistributedDataParallel`, which measures the noise as well.

        `model.register_comm_hook(None, state.measured(bf16_compress_hook))`. Without a hook of its own a model that
        was made inside of the training function is measured by itself.
        """
        if self._updates is None:
            raise UsageError("measured() needs the optimizer: pass it to State")
        return self._updates.measured(hook)

    def all_reduce(self, tensor: torch.Tensor) -> torch.Tensor:
        """Sums a tensor over all ranks, in place, and returns it; a collective.

        As `torch.distributed.all_reduce`, but a rank that waits in it always learns at once that a peer is gone.
        """
        if self._group is None:
            raise UsageError("all_reduce() only works inside the function passed to run()")
        self._group.all_reduce(tensor)
        return tensor

    def commit(self) -> None:
        """Marks a step boundary: keeps a copy of the state in memory, and lets all ranks agree on what comes next.

        Call it on every rank at the end of each step, or less often where copying the state costs too much: a worker's
        death takes the others back to here, and a resize waits for it. It does not return when the group changes:
        `run` then calls the training function again.
        """
        decision, told = 0, NOTHING
        if self._boundary is not None:
            decision, told = self._boundary.agree(self._voted, self._tell)
        self._voted = None
        if self._updates is not None:
            self._updates.hear(told)
            self._updates.settle()
        self.step += 1
        self._keep()
        now = time.monotonic()
        self._end_step()
        self._pace.add(self._since_commit, now)
        self._since_commit = 0
        self._boundary_at = now
        if self._boundary is not None:
            self._boundary.tell(self._progress())
            self._boundary.proceed(decision)

    def restore(self) -> None:
        """Goes back to the last commit. `run` does this by itself after a failed collective."""
        if self._committed_step >= 0:
            self._load(self._snapshot.tree())
        # How long it took to notice that a worker was lost is no cost of a resize.
        self._boundary_at = None

    def report(self, **metrics: float) -> None:
        """Shows these numbers (at most 15) with the job, for example `report(accuracy=0.97)`.

        One that is infinite or not a number (NaN) is left out.
        """
        self._metrics.put(metrics)
        if self._boundary is not None:
            self._boundary.tell({"metrics": self._all_metrics()})

    def _join(self, group: Group, boundary: Boundary, load: Callable[[], Any]) -> None:
        """Takes part in a new group: all ranks get the most advanced commit. A collective."""
        steps = group.gather(self._committed_step)
        source = steps.index(max(steps))
        if max(steps) < 0:
            # Nobody has trained yet: rank 0 begins, from the checkpoint where there is one.
            if group.rank == 0:
                tree = load()
                if tree is not None:
                    self._load(tree)
                self._keep()
            steps = [0] + [-1] * (group.size - 1)
        if len(set(steps)) > 1:
            self._snapshot.send(group, source)
            if steps[group.rank] != max(steps):
                self._load(self._snapshot.tree())
                self._committed_step = self.step
        self._group = group
        self._boundary = boundary
        self._voted = None
        self._end_step()
        self._since_commit = 0
        self._resized_from = self._boundary_at
        if self._sampler is not None:
            self._sampler.set_group(group.rank, group.size)
        if self._updates is not None:
            self._updates.set_group(group)
        self._pace.reset()

    def _leave_group(self) -> None:
        self._group = None
        self._boundary = None
        if self._updates is not None:
            self._updates.leave_group()

    def _end_step(self) -> None:
        self._since_commit += self._in_hand
        self._in_hand, self._averaged = 0, False

    def _tell(self) -> Told:
        return self._updates.tell() if self._updates is not None else NOTHING

    def _committed(self) -> tuple[int, Any] | None:
        """The last commit's step and a copy of it."""
        return (self._committed_step, self._snapshot.tree()) if self._committed_step >= 0 else None

    def _first_step_begins(self) -> None:
        if self._resized_from is not None and self._boundary is not None:
            self._boundary.tell({"resize_seconds": round(time.monotonic() - self._resized_from, 4)})
        self._resized_from = None

    def _progress(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"step": self.step, "epoch": self.epoch, "last_commit_at": time.time()}
        if (pace := self._pace.samples_per_second()) is not None:
            fields["samples_per_second"] = round(pace, 3)
        if self.efficiency is not None:
            fields["efficiency"] = round(self.efficiency, 6)
        return {**fields, "metrics": self._all_metrics()}

    def _all_metrics(self) -> dict[str, float]:
        numbers = self._metrics.numbers
        return numbers if self.noise_scale is None else {"noise_scale": self.noise_scale, **numbers}

    def _keep(self) -> None:
        states = {name: component.state_dict() for name, component in self._components.items()}
        tree: dict[str, Any] = {
            "step": self.step,
            "epoch": self.epoch,
            "components": states,
            "versions": {name: _versions(state) for name, state in states.items()},
            "values": self._values,
        }
        if self._updates is not None:
            tree["updates"] = self._updates.state_dict()
        self._snapshot.take(tree)
        self._committed_step = self.step

    def _load(self, tree: Any) -> None:
        require_state(tree, self._components)
        self.step = tree["step"]
        self.epoch = tree["epoch"]
        for name, component in self._components.items():
            versions = tree.get("versions", {}).get(name, {})
            component.load_state_dict(_with_versions(tree["components"][name], versions))
        for name, value in tree["values"].items():
            kept = self._values.get(name)
            if isinstance(kept, torch.Tensor) and isinstance(value, torch.Tensor) and kept.shape == value.shape:
                with torch.no_grad():  # it may be a parameter
                    kept.copy_(value)
            else:
                self._values[name] = value
        if self._updates is not None and "updates" in tree:  # a state that had no optimizer has none
            self._updates.load_state_dict(tree["updates"])


def _versions(state: Any) -> dict[str, int | None]:
    """Versions of a model's modules, by their path: torch keeps them beside the entries of a `state_dict`."""
    metadata: dict[str, Any] = getattr(state, "_metadata", {})
    return {path: each.get("version") for path, each in metadata.items()}


def _with_versions(state: Any, versions: dict[str, int | None]) -> Any:
    """The `state_dict` as the model gave it, with the versions of its modules."""
    if versions:
        state = OrderedDict(state)
        state._metadata = OrderedDict((path, {"version": version}) for path, version in versions.items())
    return state
