"""Test the measured columns of Table 1 against each mixer's declaration and known values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor

from bakeoff.models import MIXERS, Mixer, ModelSpec, mixer_class
from bakeoff.models.mixer import Cost
from bakeoff.suite.probes import path_length
from bakeoff.suite.probes.path_length import LONGEST, PathLength, chain_of, narrowed, walk
from bakeoff.suite.schema import Measurement, Status
from tests.models.small_models import sees
from tests.suite.probes.conftest import measured as numbers
from tests.suite.timing.subjects import alone, trial_of

LINFORMER = {"linformer": {"projected_length": 8}}
# Loops over chunks are counted, but not the work inside a chunk. Sums are therefore measured in a
# single chunk, token-by-token corrections with chunks of one token.
CHUNKS = {"gla": 64, "delta_net": 1, "gated_delta": 1, "kimi_delta": 1, "rwkv7": 1}
NEEDED = LINFORMER | {name: {"chunk": size} for name, size in CHUNKS.items()}
KNOBS: list[tuple[str, dict[str, Any]]] = [
    *((name, NEEDED.get(name, {})) for name in MIXERS),
    ("attention", {"heads": 8, "kernel": "materialised"}),
    ("local_attention", {"window": 5}),
    ("conv", {"kernel_size": 7}),
    ("dilated_conv", {"kernel_size": 5, "dilation_base": 3}),
    ("dilated_conv", {"num_dilations": 2}),
    ("lstm", {"is_unidirectional": True}),
    ("rnn", {"layers": 2}),
]
# By default mixers of several kinds, and all with knobs of their own; the others in the battery.
BY_DEFAULT = ("attention", "gru", "fnet", "linear_transformer", "bigbird", "mamba2")
every = pytest.mark.parametrize(
    ("name", "knobs"),
    [
        pytest.param(*each, marks=[] if each[1] or each[0] in BY_DEFAULT else pytest.mark.battery)
        for each in KNOBS
    ],
    ids=str,
)


def spec(name: str, knobs: dict[str, Any], length: int, dim: int = 64) -> ModelSpec:
    return alone(name, length, dim, **knobs)


def measured(model: ModelSpec) -> dict[str, Measurement]:
    return numbers(PathLength(), trial_of(model))


def stacked(name: str, knobs: dict[str, Any], length: int) -> Iterator[Mixer]:
    return path_length._stack(spec(name, knobs, length, dim=16))


@every
def test_layers_are_those_after_which_nothing_is_new(name: str, knobs: dict[str, Any]) -> None:
    seen = [torch.eye(8, dtype=torch.bool)]
    for mixer in islice(stacked(name, knobs, 8), 10):
        seen.append((sees(mixer, 8).float() @ seen[-1].float()) > 0)
        if seen[-1].all():
            break
    needed = next(layers for layers, each in enumerate(seen) if torch.equal(each, seen[-1]))
    assert path_length.layers_until_all_is_seen(spec(name, knobs, 8), 8) == needed


@every
def test_chains_grow_as_theory_says(name: str, knobs: dict[str, Any]) -> None:
    mixer = next(stacked(name, knobs, 32))
    chain = chain_of(mixer)
    if mixer.cost.sequential_operations == "1":
        assert chain(32) == chain(16)
        assert walk(chain, 32) == 1
    else:
        assert mixer.cost.sequential_operations == "n"
        assert chain(32) - chain(16) == 2 * (chain(16) - chain(8)) > 0
        assert [walk(chain, length) for length in (1, 2, 7, 32)] == [1, 2, 7, 32]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("attention", 1),
        ("lstm", 48),
        ("conv", 47),
        ("dilated_conv", 6),
        ("local_attention", 3),
        ("linformer", 1),
        ("performer", 1),
        ("fnet", 1),
    ],
)
def test_paths_are_those_of_table_1(name: str, path: int) -> None:
    """Check that a kernel of size 3 reaches one token per side; 1 + 2 + ... + 32 exceeds 47."""
    found = measured(spec(name, LINFORMER.get(name, {}), 48))
    assert found["maximum_path_length"].value == path
    theory = mixer_class(name).cost.sequential_operations
    assert found["theory_sequential_operations"].value == (48 if theory == "n" else 1)
    assert found["theory_maximum_path_length"].status is Status.OK


class HalfAsOften(Mixer):
    """A mixer that halves the sequence until one token is left, in log2(n) steps."""

    cost = Cost(sequential_operations="log2(n", maximum_path_length="")

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        total = x
        while total.shape[1] > 1:
            total = total[:, : total.shape[1] // 2] + total[:, -(total.shape[1] // 2) :]
        return x * total


class ToTheLeft(HalfAsOften):
    """A mixer that shifts each token by one position, in even layers only."""

    layer = 0

    def take_place(self, layer: int, first: Mixer) -> None:
        self.layer = layer

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        return x if self.layer % 2 else x + torch.nn.functional.pad(x[:, 1:], (0, 0, 0, 1))


class StandsStill(ToTheLeft):
    """A mixer where only the first layer mixes, which is not enough."""

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        return x if self.layer else super().forward(x)


def own(kind: type[Mixer]) -> Mixer:
    return kind(dim=4, max_length=64, is_causal=False, config=kind.Config())


def test_a_layer_that_halves_walks_as_often_as_it_can() -> None:
    chain = chain_of(own(HalfAsOften))
    assert [walk(chain, length) for length in (1, 2, 8, 64)] == [1, 2, 4, 7]


def own_spec(kind: type[Mixer], length: int) -> ModelSpec:
    return spec(f"{__name__}:{kind.__name__}", {}, length, dim=4)


@pytest.fixture
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the mixers of this file importable by name, however it was collected."""
    kinds = {f"{__name__}:{kind.__name__}": kind for kind in (HalfAsOften, ToTheLeft, StandsStill)}
    for module in ("bakeoff.models.stack", "bakeoff.models.registry"):
        monkeypatch.setattr(
            f"{module}.mixer_class", lambda name, found=mixer_class: kinds.get(name) or found(name)
        )


@pytest.mark.usefixtures("_importable")
def test_layers_that_differ_are_told_apart() -> None:
    """Count four mixing layers for four tokens back, and three idle layers between them."""
    assert path_length.layers_until_all_is_seen(own_spec(ToTheLeft, 5), 5) == 7


@pytest.mark.usefixtures("_importable")
def test_what_no_stack_reaches_is_said() -> None:
    found = measured(own_spec(StandsStill, 6))
    path = found["maximum_path_length"]
    assert (path.value, path.status) == (None, Status.SKIPPED)
    assert path.reason.startswith("after 12 layers an output lacks")


@pytest.mark.usefixtures("_importable")
def test_theory_that_says_nothing_or_nonsense_is_skipped_with_the_reason() -> None:
    found = measured(own_spec(HalfAsOften, 8))
    assert found["sequential_operations"].value == 3 + 1
    assert found["maximum_path_length"].value == 4
    broken, silent = (found[f"theory_{name}"] for name in list(found)[:2])
    assert (broken.status, silent.status) == (Status.SKIPPED, Status.SKIPPED)
    assert "log2(n" in broken.reason
    assert "declares no formula" in silent.reason


def test_measures_along_lengths_where_growth_shows() -> None:
    places = [(16, True), (LONGEST, True), (2 * LONGEST, True), (64, False)]
    assert [PathLength().measures_at(n, is_along_lengths=along) for n, along in places] == [
        True,
        True,
        False,
        False,
    ]


def test_a_narrow_mixer_stands_for_a_wide_one() -> None:
    assert narrowed(spec("conv", {}, 16, dim=512)).dim == 8
    assert narrowed(spec("attention", {"heads": 16}, 16, dim=512)).dim == 16
    assert narrowed(spec("attention", {"heads": 2}, 16, dim=6)).dim == 6
    assert (
        path_length.narrowed(replace(spec("conv", {}, 16, dim=512), mixer="some.module:Own")).dim
        == 512
    )
