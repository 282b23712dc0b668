"""What a resize does to the learning rate, by each rule; schedules and rollback."""

import math

import pytest
import torch

from scheduler.elastic import ConstantBatch, ElasticDistributedSampler, ScaledBatch, State, UsageError, run
from scheduler.elastic.training.batch import BatchPolicy
from scheduler.elastic.training.learning_rate import RateScaler
from scheduler.elastic.training.noise import NoiseScale, Shares


def noise_of(samples: float) -> NoiseScale:
    """One that has measured this noise scale: |G|² is 1, and tr(Σ) that much."""
    noise = NoiseScale()
    noise.add(Shares(count=2, samples=2, apart=2 * (1.0 + samples), together=1.0 + samples / 2))
    assert noise.samples == pytest.approx(samples)
    return noise


class Training:
    """An optimizer with a rate of 0.5, and the rates of its steps as they take effect."""

    def __init__(self, policy: BatchPolicy, noise: NoiseScale | None = None) -> None:
        self.parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.optimizer = torch.optim.SGD([self.parameter], lr=0.5)
        self.scaler = RateScaler(policy, self.optimizer, noise or NoiseScale())
        self.scaler.measures = True

    def step(self) -> float:
        before = self.parameter.item()
        self.parameter.grad = torch.ones_like(self.parameter)
        self.optimizer.step()
        return round(before - self.parameter.item(), 5)

    def steps(self, count: int) -> list[float]:
        return [self.step() for _ in range(count)]


def test_a_constant_batch_leaves_the_learning_rate_alone() -> None:
    training = Training(ConstantBatch(64))
    for world in (1, 4, 2):
        training.scaler.set_group(world)
        assert training.step() == 0.5
    assert training.scaler.base_steps == 3.0


def test_a_scaled_rate_warms_up_to_its_new_value_after_a_resize() -> None:
    training = Training(ScaledBatch(per_worker=8, base_workers=2, warmup_steps=4))
    training.scaler.set_group(2)
    assert training.step() == 0.5
    training.scaler.set_group(4)
    assert training.steps(5) == [0.625, 0.75, 0.875, 1.0, 1.0]
    training.scaler.set_group(2)
    assert training.steps(5) == [0.875, 0.75, 0.625, 0.5, 0.5]


def test_a_training_that_starts_large_warms_up_from_the_base_rate_and_one_that_starts_small_takes_its_own() -> None:
    large = Training(ScaledBatch(per_worker=8, base_workers=2, warmup_steps=2))
    large.scaler.set_group(6)
    assert large.steps(3) == [1.0, 1.5, 1.5]
    small = Training(ScaledBatch(per_worker=8, base_workers=2, warmup_steps=2))
    small.scaler.set_group(1)
    assert small.steps(2) == [0.25, 0.25]


def test_a_resize_during_warm_up_goes_on_from_where_it_stands() -> None:
    training = Training(ScaledBatch(per_worker=8, warmup_steps=2))
    training.scaler.set_group(1)
    training.scaler.set_group(3)
    assert training.step() == 1.0
    training.scaler.set_group(1)
    assert training.steps(2) == [1.0, 0.5]


def test_a_group_formed_again_at_the_same_size_does_not_begin_the_warm_up_again() -> None:
    training = Training(ScaledBatch(per_worker=8, warmup_steps=2))
    training.scaler.set_group(1)
    training.scaler.set_group(3)
    training.step()
    training.scaler.set_group(3)
    assert training.steps(2) == [1.5, 1.5]


def test_the_square_root_rule_keeps_the_root() -> None:
    training = Training(ScaledBatch(per_worker=8, warmup_steps=0, rate="sqrt"))
    for world in (1, 4, 9):
        training.scaler.set_group(world)
        assert training.step() == 0.5 * math.sqrt(world)
    assert training.scaler.base_steps == 14.0, "it counts samples"


@pytest.mark.parametrize(("noise", "gain"), [(0.0, 1.0), (8.0, 1.6), (24.0, 16 / 7), (1e9, 4.0)])
def test_adascale_takes_the_gain_between_one_and_the_linear_factor(noise: float, gain: float) -> None:
    # (tr Σ / 8 + 1) / (tr Σ / 32 + 1) with |G|² = 1.
    training = Training(ScaledBatch(per_worker=8, warmup_steps=0, rate="adascale"), noise_of(noise))
    training.scaler.set_group(4)
    assert training.step() == pytest.approx(0.5 * gain, abs=1e-5)
    assert training.scaler.base_steps == pytest.approx(gain)


def test_adascale_is_careful_until_the_noise_is_known() -> None:
    for world, factor in ((4, 1.0), (1, 0.5)):
        training = Training(ScaledBatch(per_worker=8, base_workers=2, rate="adascale", warmup_steps=0))
        training.scaler.set_group(world)
        assert training.step() == 0.5 * factor


def test_adascale_without_averaged_gradients_is_refused_and_leaves_the_rate_as_it_was() -> None:
    training = Training(ScaledBatch(per_worker=8, rate="adascale"))
    training.scaler.set_group(1)
    training.scaler.measures = False
    with pytest.raises(UsageError, match=r"call average_gradients\(\) first"):
        training.step()
    assert training.optimizer.param_groups[0]["lr"] == 0.5


def test_schedules_never_see_the_factor() -> None:
    training = Training(ScaledBatch(per_worker=8, warmup_steps=0))
    rates = torch.optim.lr_scheduler.ExponentialLR(training.optimizer, gamma=0.5)
    training.scaler.set_group(4)
    assert training.step() == 2.0
    rates.step()
    assert training.optimizer.param_groups[0]["lr"] == 0.25
    assert training.step() == 1.0


def test_a_schedule_over_base_steps_is_stepped_as_often_as_the_size_is_worth() -> None:
    training = Training(ScaledBatch(per_worker=8, base_workers=3, warmup_steps=0))
    due = []
    for world in (3, 4, 4, 4, 1, 1, 1, 6):
        training.scaler.set_group(world)
        training.step()
        due.append(training.scaler.take_schedule_steps())
    assert due == [1, 1, 1, 2, 0, 0, 1, 2]


def test_the_warm_up_and_the_count_are_rolled_back_with_the_state() -> None:
    training = Training(ScaledBatch(per_worker=8, warmup_steps=4))
    training.scaler.set_group(1)
    training.scaler.set_group(3)
    training.step()
    kept = training.scaler.state_dict()
    first = training.step()
    training.scaler.load_state_dict(kept)
    assert training.scaler.base_steps == 3.0
    assert training.step() == first


def test_a_rate_that_was_scaled_when_a_step_was_cut_off_is_put_back_at_the_groups_end() -> None:
    training = Training(ScaledBatch(per_worker=8, base_workers=2, warmup_steps=0))
    training.scaler.set_group(1)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    training.optimizer.register_step_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        training.step()
    training.scaler.rest(training.optimizer)
    assert training.optimizer.param_groups[0]["lr"] == 0.5


def run_two_steps(optimizer: torch.optim.Optimizer, parameter: torch.Tensor, batch: BatchPolicy) -> list[float]:
    """What two steps of a training of its own on one worker move the parameter by."""
    moved = []

    def train(state: State) -> None:
        for _ in range(2):
            before = parameter.item()
            parameter.grad = torch.ones_like(parameter)
            state.average_gradients(samples=1)
            optimizer.step()
            moved.append(round(before - parameter.item(), 5))
            state.commit()

    run(train, State(optimizer=optimizer, sampler=ElasticDistributedSampler(8, batch=batch)))
    return moved


def test_trainings_one_after_the_other_with_the_same_optimizer_each_scale_its_rate_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SCHED_URL", "SCHED_CHECKPOINT_DIR", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    quarter = ScaledBatch(per_worker=8, base_workers=4, warmup_steps=0)
    assert run_two_steps(optimizer, parameter, quarter) == [0.25, 0.25]
    assert run_two_steps(optimizer, parameter, quarter) == [0.25, 0.25]
    run_two_steps(optimizer, parameter, ScaledBatch(per_worker=8, rate="adascale"))
    optimizer.step()  # without a training, which AdaScale would refuse
    assert run_two_steps(optimizer, parameter, ConstantBatch(8)) == [1.0, 1.0]
    assert optimizer.param_groups[0]["lr"] == 1.0


def test_a_step_that_failed_scales_the_rate_of_no_other_and_leaves_no_trace_in_a_commit() -> None:
    parameter = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = torch.optim.SGD([parameter], lr=0.5)
    sampler = ElasticDistributedSampler(8, batch=ScaledBatch(per_worker=2, base_workers=2, warmup_steps=0))
    state = State(optimizer=optimizer, sampler=sampler)

    def out_of_memory() -> float:
        raise RuntimeError("out of memory")

    def train(state: State) -> list[float]:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="out of memory"):
                optimizer.step(out_of_memory)
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        with pytest.raises(RuntimeError, match="out of memory"):
            optimizer.step(out_of_memory)
        state.commit()
        committed = optimizer.param_groups[0]["lr"]
        with pytest.raises(RuntimeError, match="out of memory"):
            optimizer.step(out_of_memory)
        state.restore()
        return [-parameter.item(), committed, optimizer.param_groups[0]["lr"]]

    assert run(train, state) == [0.25, 0.5, 0.5]
