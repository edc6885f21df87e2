"""Check that timing and memory probes compute at the precision of the recipe."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from bakeoff.models.mixers.attention import Attention
from bakeoff.suite.events import Condition
from bakeoff.suite.execution.trial import run_trial
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.decode import decode_step
from bakeoff.suite.probes.probe import probe
from bakeoff.suite.schema import Resources, Status, Trial
from bakeoff.suite.spec import vary
from bakeoff.suite.timing.clock import CpuClock
from bakeoff.suite.timing.passes import Pass
from tests.processor import has_bf16_lstm
from tests.suite.probes.conftest import by_subject
from tests.suite.probes.test_decode import STEPPING
from tests.suite.small_ablation import make_ablation
from tests.suite.timing.subjects import alone

AT_PRECISION = ["step_time", "decode", "mixer_time", "mixer_memory", "peak_memory"]
COMPARED = ["step_time", "decode", "mixer_time"]
SCALE: dict[str, Any] = {"lengths": [8], "seeds": 1}

pytestmark = pytest.mark.usefixtures("brief")


def trials(name: str, **scale: Any) -> tuple[Trial, ...]:
    axes = [vary("heads", [2, 4])]
    return plan(make_ablation(probes=[name], axes=axes, scale={**SCALE, **scale})).trials


@pytest.fixture
def products() -> Iterator[list[torch.dtype]]:
    """Yield the dtypes of all linear outputs, except those of the check against the reference."""
    seen: list[torch.dtype] = []

    def note(module: nn.Module, inputs: object, output: object) -> None:
        if isinstance(module, nn.Linear) and isinstance(output, Tensor):
            seen.append(output.dtype)

    hook = register_module_forward_hook(note)
    yield seen
    hook.remove()


@pytest.mark.whole
@pytest.mark.parametrize("name", AT_PRECISION)
def test_a_probe_computes_at_the_precision_of_the_recipe(
    name: str, products: list[torch.dtype]
) -> None:
    for precision, expected in (("float32", torch.float32), ("bf16", torch.bfloat16)):
        trial = trials(name, precision=precision)[0]
        products.clear()
        deque(probe(name).measure(trial, "cpu"), maxlen=0)
        assert {*products} - {torch.float64} == {expected}


@pytest.mark.parametrize("name", AT_PRECISION)
def test_float32_is_no_part_of_an_id_and_others_are(name: str) -> None:
    usual, same, other = (
        {each.trial_id for each in trials(name, **scale)}
        for scale in ({}, {"precision": "float32"}, {"precision": "bf16"})
    )
    assert usual == same
    assert usual.isdisjoint(other)


def test_precisions_as_an_axis_are_timed_apart() -> None:
    axes = [vary("precision", ["float32", "bf16"])]
    found = plan(
        make_ablation(axes=axes, probes=["quality", "step_time", "mixer_time"], scale=SCALE)
    )
    of = [(t.probe, t.precision, t.settled_precision) for t in found.trials]
    assert sorted(of) == [
        ("mixer_time", "bf16", "bf16"),
        ("mixer_time", "float32", "float32"),
        ("quality", "float32", "bf16"),
        ("quality", "float32", "float32"),
        ("step_time", "bf16", "bf16"),
        ("step_time", "float32", "float32"),
    ]


def test_tf32_needs_a_gpu_also_where_nothing_is_trained() -> None:
    axes = [vary("precision", ["float32", "tf32"])]
    found = plan(make_ablation(axes=axes, probes=["mixer_time"], scale=SCALE))
    reasons = {cell.reason for cell in found.cells if cell.variant == "precision=tf32"}
    assert reasons == {"precision='tf32' needs a GPU, and the scale has gpus=0"}


def test_tf32_is_in_force_where_a_trial_is_timed_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []

    def noted(self: object, trial: Trial, device: str) -> Iterator[Any]:
        found.append(torch.backends.cuda.matmul.allow_tf32)
        yield from ()

    monkeypatch.setattr("bakeoff.suite.probes.mixer_time.MixerTime.measure", noted)
    (trial,) = trials("mixer_time", precision="tf32", gpus=1.0)
    deque(run_trial(trial, Resources(num_gpus=1.0), "here"), maxlen=0)
    assert found == [True]


@pytest.mark.parametrize("name", COMPARED)
def test_who_cannot_compute_so_is_a_row_with_the_reason(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trial,) = trials(name, precision="bf16")

    def refuse(mixer: Attention, original: Any, *given: Any) -> Any:
        if mixer.config.heads == 2 and torch.is_autocast_enabled("cpu"):
            raise RuntimeError("no kernel for BFloat16")
        return original(mixer, *given)

    for form in ("forward", "step"):
        original = getattr(Attention, form)
        monkeypatch.setattr(
            Attention, form, lambda mixer, *given, o=original, **k: refuse(mixer, o, *given)
        )
    wrong = next(i for i, spec in enumerate(trial.subjects) if spec.knobs["heads"] == 2)
    rows = by_subject(probe(name).measure(trial, "cpu"))
    for spec in probe(name).specs:
        row = rows[spec.name, wrong]
        assert (row.status, row.value) == (Status.SKIPPED, None)
        assert row.reason == (
            "it cannot be run with precision='bf16': RuntimeError: no kernel for BFloat16"
        )
        assert rows[spec.name, 1 - wrong].value


def test_who_cannot_decode_so_may_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    (trial,) = trials("mixer_time", precision="bf16")

    def refuse(*given: Any) -> Any:
        raise RuntimeError("no kernel for BFloat16")

    monkeypatch.setattr(Attention, "step", refuse)
    rows = by_subject(probe("mixer_time").measure(trial, "cpu"))
    fates = {name: rows[f"{name}_seconds", 0].status for name in ("forward", "decode_token")}
    assert fates == {"forward": Status.OK, "decode_token": Status.SKIPPED}


@pytest.mark.parametrize("name", COMPARED)
def test_what_the_device_says_of_its_clock_is_kept_with_the_times(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = Condition("GPU held back by", "power cap")
    monkeypatch.setattr(CpuClock, "conditions", lambda clock: iter([said]))
    assert list(probe(name).measure(trials(name)[0], "cpu"))[-1] == said


@pytest.mark.parametrize("mixer", STEPPING)
def test_whoever_steps_does_so_at_bf16(mixer: str) -> None:
    if mixer == "lstm" and not has_bf16_lstm():
        pytest.skip("this processor has no LSTM in bfloat16")
    step = decode_step(alone(mixer), "cpu", 0, precision="bf16")
    assert isinstance(step, Pass)
    step.run()


def test_no_formula_of_float32_refuses_a_length_at_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a float32 formula that may give twice the memory that bf16 takes."""
    monkeypatch.setattr(Attention, "forward_bytes", lambda *_: 10**15)
    found = {}
    for precision in ("float32", "bf16"):
        trial = trials("mixer_memory", precision=precision)[0]
        rows = by_subject(probe("mixer_memory").measure(trial, "cpu"))
        found[precision] = rows["forward_peak_bytes", 0].status
    assert found == {"float32": Status.OUT_OF_MEMORY, "bf16": Status.OK}
