"""The gradient noise scale: against quadratics whose noise is known, and measured by real workers."""

import ast
import math

import pytest
import torch

from scheduler.elastic.training.noise import NoiseScale, Shares, efficiency, gain
from tests.elastic.processes import SECONDS_MAX, fixed_group

# Linear regression with the parameters held still: gradients of single samples tell the true noise scale.
REGRESSION = """
import sys, torch
from scheduler import elastic
torch.set_num_threads(1)
torch.manual_seed(0)
inputs = torch.randn(4000, 8)
targets = inputs @ torch.ones(8) + 2.0 * torch.randn(4000)
model = torch.nn.Linear(8, 1, bias=False, dtype=torch.DTYPE)
with torch.no_grad():
    model.weight.fill_(2.0)
each = (inputs @ model.weight[0].detach().float() - targets).unsqueeze(1) * inputs
true = each.var(dim=0).sum() / each.mean(dim=0).square().sum()
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
batch = elastic.ScaledBatch(per_worker=3) if sys.argv[1] == "scaled" else int(sys.argv[1])
sampler = elastic.ElasticDistributedSampler(4000, batch=batch)
state = elastic.State(model=model, optimizer=optimizer, sampler=sampler)
def train(state):
    for _ in state.epochs(1):
        for indices in state.batches():
            optimizer.zero_grad()
            loss = (model(inputs[indices].to(torch.DTYPE)).squeeze(1) - targets[indices].to(torch.DTYPE)).square()
            (0.5 * loss).sum().backward()
            state.average_gradients(len(indices), loss="sum")
            optimizer.step()
            state.commit()
    print((float(true), state.noise_scale, state.efficiency), flush=True)
elastic.run(train, state)
"""


def measure(size: int, batch: str, dtype: str = "float32") -> list[tuple[float, float, float]]:
    """(true noise scale, measured, efficiency) of each rank."""
    with fixed_group(size, "-c", REGRESSION.replace("DTYPE", dtype), batch) as workers:
        outputs = [worker.communicate(timeout=SECONDS_MAX)[0] for worker in workers]
    return [ast.literal_eval(output.splitlines()[-1]) for output in outputs]


def shares_of(gradients: list[torch.Tensor], counts: list[int]) -> Shares:
    whole = sum((count * gradient for count, gradient in zip(counts, gradients, strict=True)), torch.zeros(()))
    apart = sum(count * float(gradient.square().sum()) for count, gradient in zip(counts, gradients, strict=True))
    return Shares(len(counts), sum(counts), apart, float((whole / sum(counts)).square().sum()))


@pytest.mark.parametrize("counts", [[4, 4], [8, 1, 3], [1] * 8])
@pytest.mark.parametrize("distance", [0.5, 2.0])
def test_the_noise_scale_of_a_noisy_quadratic_is_found_whatever_the_shares(counts: list[int], distance: float) -> None:
    # f(x) = |x|² / 2 with unit noise in each of 50 directions: tr(Σ) = 50 and |G|² = distance².
    generator = torch.Generator().manual_seed(0)
    mean = torch.zeros(50)
    mean[0] = distance
    noise = NoiseScale()
    for _ in range(2000):
        drawn = [mean + torch.randn(50, generator=generator) / math.sqrt(count) for count in counts]
        noise.add(shares_of(drawn, counts))
    assert noise.samples == pytest.approx(50 / distance**2, rel=0.25)


def test_it_follows_a_change_within_its_horizon() -> None:
    noise = NoiseScale()
    for true in (10.0, 1000.0):
        for _ in range(2000):
            noise.add(Shares(2, 2, 2 * (1.0 + true), 1.0 + true / 2))
    assert noise.samples == pytest.approx(1000.0, rel=0.03)


def test_no_measurement_and_no_gradient_are_unknown_and_pure_noise_is_bounded() -> None:
    noise = NoiseScale()
    assert noise.samples is None
    noise.add(Shares(2, 2, math.inf, 1.0))
    noise.add(Shares(2, 2, 1.0, math.nan))
    noise.add(Shares(2, 2, 0.0, 1.7e308))
    noise.add(Shares(2, 2, 0.0, 0.0))
    assert noise.samples is None
    noise.add(Shares(2, 8, 8.0, 0.5))
    assert noise.samples == 1e9
    equal = NoiseScale()
    equal.add(Shares(2, 8, 8.0, 1.0))
    assert equal.samples == 0.0


def test_what_was_measured_goes_back_with_the_state() -> None:
    noise, other = NoiseScale(), NoiseScale()
    noise.add(Shares(2, 2, 22.0, 6.0))
    other.load_state_dict(noise.state_dict())
    assert other.samples == noise.samples == 10.0


def test_the_gain_of_a_batch_is_its_size_times_its_efficiency() -> None:
    for noise in (0.0, 3.0, 1e9):
        for batch in (1, 8, 64):
            assert gain(noise, 8, batch) == pytest.approx(batch / 8 * efficiency(noise, 8, batch))
    assert efficiency(0.0, 8, 32) == 0.25
    assert efficiency(1e9, 8, 32) == pytest.approx(1.0)
    assert gain(None, 8, 32) == 1.0


@pytest.mark.torch
@pytest.mark.parametrize(("size", "batch"), [(3, "7"), pytest.param(2, "scaled", marks=pytest.mark.slow), (1, "7")])
def test_workers_measure_the_true_noise_scale_and_all_know_the_same(size: int, batch: str) -> None:
    answers = measure(size, batch)
    true, measured, efficient = answers[0]
    assert answers == [(true, measured, efficient)] * size
    assert measured == pytest.approx(true, rel=0.15)
    present, alone = (6, 3) if batch == "scaled" else (7, 7)
    assert efficient == pytest.approx((measured + alone) / (measured + present))


@pytest.mark.slow
@pytest.mark.torch
def test_half_precision_measures_about_the_same() -> None:
    true, measured, _ = measure(2, "8", "bfloat16")[0]
    assert measured == pytest.approx(true, rel=0.25)
