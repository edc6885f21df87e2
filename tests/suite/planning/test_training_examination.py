"""Tests for the examination of own classes by training: unsaved state, mixed rows, parameters."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bakeoff.models import MIXERS, Architecture, Mixer, ModelSpec, mixer_class
from bakeoff.suite.commands.plan import Asked, show
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.planning.training_examination import (
    _Subject,
    remarks_on,
    unresumable,
    why_rows_mixed,
    why_unsaved,
    why_unshared,
)
from bakeoff.suite.spec import SpecError
from tests.suite.planning.test_examination import spec as mixer_spec
from tests.suite.small_ablation import WriteAblation

CALLS = 0


class Net(Architecture):
    """A linear map of the mean of its inputs; subclasses change more in training."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 4

    calls = 0

    def build(self, seeds: object) -> None:
        self.first = nn.Linear(self.spec.input_size, self.config.width)  # type: ignore[attr-defined]
        self.head = nn.Linear(self.config.width, self.spec.output_size)  # type: ignore[attr-defined]
        self.make()

    def make(self) -> None:
        """Add the attributes of a subclass."""

    def forward(self, inputs: Tensor) -> Tensor:  # type: ignore[override]
        x = self.first(inputs).mean(1)
        logits: Tensor = self.head(self.change(x) if self.training else x)
        return logits

    def change(self, x: Tensor) -> Tensor:
        return x


Own: type[nn.Module]
Change = Callable[[Any, Tensor], Tensor | None]


def net(change: Change, **made: Callable[[], Any]) -> type[Net]:
    """Return a subclass of `Net` with the attributes `made`, which applies `change` in training."""

    def make(self: Any) -> None:
        for name, value in made.items():
            setattr(self, name, value())

    def changed(self: Any, x: Tensor) -> Tensor:
        found = change(self, x)
        return x if found is None else found

    return type("Own", (Net,), {"make": make, "change": changed, "__module__": __name__})


def count(self: Any, x: Tensor) -> None:
    self.calls += 1


def count_in_class(self: Any, x: Tensor) -> None:
    type(self).calls += 1


def count_in_module(self: Any, x: Tensor) -> None:
    global CALLS
    CALLS += 1


def unsaved_average(self: Any, x: Tensor) -> Tensor:
    if not hasattr(self, "average"):
        self.register_buffer("average", torch.zeros(4), persistent=False)
    self.average = 0.9 * self.average + 0.1 * x.detach().mean(0)
    return x - self.average


def late_buffer(self: Any, x: Tensor) -> None:
    self.register_buffer("late", x.detach().mean(0))


def counted(start: int = 0) -> Callable[[], int]:
    calls = start

    def next_one() -> int:
        nonlocal calls
        calls += 1
        return calls

    return next_one


class Counter:
    """An object with state, as a module may hold it."""

    def __init__(self) -> None:
        self.calls = 0


UNSAVED: Mapping[str, tuple[type[Net], str]] = {
    "a counter": (net(count), "'calls' changes"),
    "a counter in a list": (net(lambda s, x: s.calls.append(1), calls=list), "'calls' changes"),
    "a counter in an object": (
        net(lambda s, x: setattr(s.own, "calls", len(vars(s.own)) + s.own.calls), own=Counter),
        "'own' changes",
    ),
    "of the class": (net(count_in_class), "'Own.calls' changes"),
    "of the module": (net(count_in_module), "test_training_examination.CALLS' changes"),
    "a buffer": (net(unsaved_average), "'average' changes"),
    "a tensor": (
        net(lambda s, x: x + s.kept.add_(1.0).sum(), kept=lambda: torch.zeros(2)),
        "'kept' changes",
    ),
    "an array": (
        net(lambda s, x: setattr(s, "kept", s.kept + 1), kept=lambda: np.zeros(2)),
        "'kept' changes",
    ),
    "torch's generator": (
        net(
            lambda s, x: x + torch.rand(4, generator=s.own),
            own=lambda: torch.Generator().manual_seed(3),
        ),
        "'own' changes",
    ),
    "numpy's generator": (
        net(lambda s, x: x * s.own.random(), own=lambda: np.random.default_rng(3)),
        "'own' changes",
    ),
    "Python's generator": (
        net(lambda s, x: x * s.own.random(), own=lambda: random.Random(3)),
        "'own' changes",
    ),
    "an iterator": (net(lambda s, x: x * next(s.own), own=itertools.count), "'own' changes"),
    "a closure": (net(lambda s, x: x / s.own(), own=counted), "'own' changes"),
    "a buffer made in training": (net(late_buffer), "'late' of its state_dict is made"),
}


def batch_norm(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / (x.std(0) + 1e-5)


def cached(self: Any, x: Tensor) -> Tensor:
    self.tables.setdefault(x.shape, torch.ones(x.shape[1:]))
    return x * self.tables[x.shape]


def last_seen(self: Any, x: Tensor) -> None:
    self.last = x.detach()


def saved_count(self: Any, x: Tensor) -> Tensor:
    self.number += 1
    return x / self.number


SAVED: Mapping[str, type[Net]] = {
    "nothing": Net,
    "a cached table": net(cached, tables=dict),
    "what it saw last": net(last_seen),
    "global generators": net(
        lambda s, x: x * random.random() * float(np.random.rand()) * torch.rand(())
    ),
    "a buffer": net(saved_count, number=lambda: nn.Buffer(torch.zeros(()))),
    "dropout": net(lambda s, x: s.drop(x), drop=lambda: nn.Dropout(0.5)),
    "batch norm": net(lambda s, x: s.norm(x), norm=lambda: nn.BatchNorm1d(4)),
}
MIXED: Mapping[str, type[Net]] = {
    "nn.BatchNorm1d": SAVED["batch norm"],
    "own code": net(lambda s, x: batch_norm(x)),
    "own code under dropout": net(lambda s, x: nn.functional.dropout(batch_norm(x), 0.5)),
    "the size of the batch": net(lambda s, x: x * len(x)),
    "a mean that is used later": net(
        lambda s, x: setattr(s, "seen", 0.9 * s.seen + x.detach().mean(0)),
        seen=lambda: nn.Buffer(torch.zeros(4)),
    ),
}


def spec() -> ModelSpec:
    return ModelSpec(
        architecture=f"{__name__}:Own",
        mixer="",
        knobs={},
        position="",
        dim=0,
        depth=0,
        length=6,
        input_kind="vectors",
        input_size=3,
        output_size=2,
        settings={"width": 4},
    )


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def of(kind: type[nn.Module], why: Callable[..., str] = why_unsaved) -> str:
        monkeypatch.setitem(globals(), "Own", kind)
        return why(spec(), "class")

    return of


@pytest.mark.parametrize("case", UNSAVED)
def test_state_that_no_checkpoint_holds_is_named(case: str, found: Callable[..., str]) -> None:
    kind, fragment = UNSAVED[case]
    assert fragment in found(kind)
    assert found(kind).startswith(f"{__name__}:Own cannot be resumed from a checkpoint: ")


@pytest.mark.parametrize("case", SAVED)
def test_what_a_checkpoint_holds_or_nothing_depends_on_is_not(
    case: str, found: Callable[..., str]
) -> None:
    assert found(SAVED[case]) == ""


def test_random_numbers_stay_as_they_were(found: Callable[..., str]) -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    found(UNSAVED["numpy's generator"][0])
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


@pytest.mark.parametrize("case", MIXED)
def test_what_looks_across_the_batch_in_training_is_found(
    case: str, found: Callable[..., str]
) -> None:
    assert "mixes the rows of a batch in training" in found(MIXED[case], why_rows_mixed)


@pytest.mark.parametrize("case", [case for case in SAVED if case != "batch norm"])
def test_rows_that_do_not_meet_are_not_mixed(case: str, found: Callable[..., str]) -> None:
    assert found(SAVED[case], why_rows_mixed) == ""


def test_parameters_that_deepspeed_cannot_reduce_are_found(found: Callable[..., str]) -> None:
    def kind(dtype: torch.dtype) -> type[Net]:
        return net(lambda s, x: None, odd=lambda: nn.Parameter(torch.zeros(2, dtype=dtype)))

    assert "has the complex parameter 'odd'" in found(kind(torch.complex64), why_unshared)
    assert "the parameter 'odd' of torch.float64" in found(kind(torch.float64), why_unshared)
    assert found(kind(torch.float32), why_unshared) == ""


class Drifting(Mixer):
    """A mixer that counts its calls and normalises over the batch in training."""

    supports_causal = True
    calls = 0

    def forward(self, x, mask=None, context=None, context_mask=None):
        if not self.training:
            return x
        self.calls += 1
        return batch_norm(x) / self.calls


def test_an_own_mixer_is_examined_beside_shipped_ones() -> None:
    name = f"{__name__}:Drifting"
    for mixer in (name, f"attention+{name}"):
        model = mixer_spec(name, is_causal=False)
        knobs = dict(vars(mixer_class("attention").Config())) if "+" in mixer else {}
        model = ModelSpec(**{**vars(model), "mixer": mixer, "knobs": knobs})
        assert why_unsaved(model, "class").startswith(f"{name} cannot be resumed")
        assert why_rows_mixed(model, "class").startswith(f"{name} mixes the rows")


@pytest.mark.parametrize("mixer", ["performer", "fnet", "lsh_attention"])
def test_nothing_is_found_of_shipped_mixers(mixer: str) -> None:
    assert mixer in MIXERS
    subject = _Subject(
        spec=mixer_spec(mixer, is_causal=False),
        asks_for="class",
        name=mixer,
        kind=mixer_class(mixer),
    )
    assert [subject.finding(each) for each in ("unsaved", "rows_mixed", "unshared")] == [""] * 3


OWN_NET = """
from dataclasses import dataclass
import torch
from torch import nn
from bakeoff.models import Architecture

TYPES = {"complex64": torch.complex64, "float64": torch.float64}

class Net(Architecture):
    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int = 16
        kind: str = "plain"

    def build(self, seeds):
        self.calls, kind, width = 0, self.config.kind, self.config.width
        self.first = nn.Linear(self.spec.input_size, width)
        self.norm = nn.BatchNorm1d(width) if kind == "norm" else nn.Identity()
        self.scale = nn.Parameter(torch.ones(width, dtype=TYPES.get(kind)))
        self.head = nn.Linear(width, self.spec.output_size)
        if kind == "marks":
            self.scale._optim = {"lr": 1e-4, "weight_decay": 0.0}

    def forward(self, inputs):
        self.calls += self.training and self.config.kind == "counts"
        x = self.norm(self.first(inputs).mean(1)) / (1 + self.calls)
        return self.head((x * self.scale).real.float())
"""


@pytest.fixture
def written(write_ablation: WriteAblation, tmp_path: Path) -> Callable[..., Path]:
    (tmp_path / "unsaved_net.py").write_text(OWN_NET)

    def write(kind: str) -> Path:
        return write_ablation(
            baseline=f'Model("unsaved_net:Net", kind="{kind}")',
            axes='[vary("width", [8, 16])]',
            tasks='["fashion_mnist_patches"]',
            probes='["quality", "parameters"]',
            scales='{"quick": Scale(length=49, steps=3, batch=8)}',
        )

    return write


def test_a_plan_says_what_cannot_be_resumed_once(
    written: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(written("counts"))
    found = plan(file, seeds=2)
    (remark,) = remarks_on([found])
    assert remark.startswith("unsaved_net:Net cannot be resumed from a checkpoint: 'calls' changes")
    assert "starts from the beginning" in remark
    trained = {trial.trial_id for trial in found.trials if trial.training}
    assert len(trained) == 4
    assert set(unresumable([found])) == trained
    show(Asked([file], "quick", 1), tmp_path / "out")
    assert capsys.readouterr().out.count(remark) == 1


def test_a_plan_says_which_marks_are_not_read(written: Callable[..., Path]) -> None:
    (remark,) = remarks_on([plan(str(written("marks")), seeds=2)])
    assert remark.startswith("unsaved_net:Net sets _optim on 'scale', which is ignored")


@pytest.mark.parametrize(
    ("kind", "settings", "fragment"),
    [
        ("norm", {"accumulation": 4}, "mixes the rows of a batch in training, .* cut into 4"),
        ("norm", {"workers": 2}, "mixes the rows of a batch in training, .* cut into 2"),
        ("counts", {"accumulation": 2}, "'calls' changes .* accumulation=2 each part"),
        ("complex64", {"workers": 2, "zero": 1}, "has the complex parameter 'scale'"),
        ("float64", {"workers": 2}, "has the parameter 'scale' of torch.float64"),
    ],
)
def test_what_cannot_be_divided_is_refused_while_planning(
    kind: str, settings: dict[str, int], fragment: str, written: Callable[..., Path]
) -> None:
    file = str(written(kind))
    assert remarks_on([plan(file, seeds=1)]) == [] or kind == "counts"
    with pytest.raises(SpecError, match=rf"impossible .*: unsaved_net:Net .*{fragment}"):
        plan(file, seeds=1, settings=settings)
