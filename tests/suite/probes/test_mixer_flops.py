"""Test the FLOPs of mixers by formula, counter and theory, and the check for a wrong formula."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, library, nn
from torch.nn.functional import scaled_dot_product_attention

from bakeoff.models import MIXERS, Mixer, build_mixer, flop_count, mixer_class
from bakeoff.models.flop_count import UncountedOperationError, counted_flops, is_free
from bakeoff.models.mixers.conv import Convolution
from bakeoff.suite.probes.mixer_flops import DisagreeingFlopsError, MixerFlops
from bakeoff.suite.schema import Measurement
from tests.suite.probes.conftest import measured as numbers
from tests.suite.timing.subjects import alone, trial_of


class Boasting(Convolution):
    """A mixer whose formula declares half of its FLOPs."""

    def flops(self, length: int, batch: int = 1) -> float:
        return super().flops(length, batch) / 2


class Formless(Mixer):
    """A linear map without a cost formula."""

    def __init__(self, *, dim: int, **sizes: Any) -> None:
        super().__init__(dim=dim, **sizes)
        self.map = nn.Linear(dim, dim)

    def forward(self, x: Tensor, *others: Any) -> Tensor:  # type: ignore[override]
        mapped: Tensor = self.map(x)
        return mapped


class WithoutTheory(Convolution):
    """A convolution without the declared costs of Table 1."""

    cost = type(Convolution.cost)()


def measured(mixer: str, length: int, **knobs: int) -> dict[str, Measurement]:
    return numbers(MixerFlops(), trial_of(alone(mixer, length, **{"dim": 64, **knobs})))


# By default products, a scan over tokens, transforms, random blocks; the others in the battery, as
# test_every_mixer.py compares each formula with a counter.
BY_DEFAULT = ("attention", "gru", "fnet", "delta_net", "bigbird")
SOME = [pytest.param(m, marks=[pytest.mark.battery] * (m not in BY_DEFAULT)) for m in MIXERS]


def test_a_convolution_by_hand() -> None:
    found = measured("conv", 100, dim=16, kernel_size=5)
    assert found["forward_flops"].value == found["counted_flops"].value == 100 * 5 * 2 * 16**2
    assert found["theory_operations"].value == 5 * 100 * 16**2
    assert [each.at for each in found.values()] == ["", "", ""]


@pytest.mark.parametrize("mixer", SOME)
@pytest.mark.parametrize("length", [64, pytest.param(4096, marks=pytest.mark.battery)])
def test_formula_and_counter_agree(mixer: str, length: int) -> None:
    found = measured(mixer, length)
    formula, counted = found["forward_flops"].value, found["counted_flops"].value
    assert formula is not None
    assert counted == pytest.approx(formula, rel=0.01)


def test_a_wrong_formula_is_an_error_with_both_numbers() -> None:
    with pytest.raises(DisagreeingFlopsError, match="76800 FLOPs by its formula, and 153600 by"):
        measured(f"{__name__}:Boasting", 100, dim=16)


def test_without_a_theory_there_is_no_row_of_it() -> None:
    found = measured(f"{__name__}:WithoutTheory", 10)
    assert list(found) == ["forward_flops", "counted_flops"]


def test_a_mixer_without_a_formula_is_counted() -> None:
    found = measured(f"{__name__}:Formless", 100, dim=16)
    assert found["forward_flops"].value == found["counted_flops"].value == 2 * 100 * 16**2


N, D = 40, 16
# By default each mixer in one form only, which is causal where there is such a form.
FORMS = [
    pytest.param(name, is_causal, marks=marks)
    for name in MIXERS
    for is_causal, marks in (
        [(True, ()), (False, pytest.mark.battery)]
        if mixer_class(name).supports_causal
        else [(False, ())]
    )
]
SOME_FORMS = [
    pytest.param(*f.values, marks=f.marks if f.values[0] in BY_DEFAULT else pytest.mark.battery)
    for f in FORMS
]


class Does(nn.Module):
    """A module that runs a given function."""

    def __init__(self, work: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.work = work

    def forward(self, x: Tensor) -> object:
        return self.work(x)


@pytest.mark.parametrize(
    ("work", "flops"),
    [
        (lambda x: x @ x.transpose(1, 2), 2 * N * N * D),
        (lambda x: torch.einsum("btd,bsd->bts", x, x), 2 * N * N * D),
        (lambda x: torch.baddbmm(x @ x.mT, x, x.mT), 2 * 2 * N * N * D),
        (lambda x: x[0] @ x[0, 0], 2 * N * D),
        (lambda x: x[0, 0] @ x[0, 1], 2 * D),
        (lambda x: torch.addmv(x[0, :, 0], x[0], x[0, 0]), 2 * N * D),
        (lambda x: torch.fft.fft(x), N * 5 * D * 4),
        (lambda x: torch.fft.rfft(x), N * 5 * D * 4),
        (lambda x: torch.fft.irfft(x, n=32), N * 5 * 32 * 5),
        (lambda x: torch.fft.fft(x, n=32, dim=1), D * 5 * 32 * 5),
        (lambda x: scaled_dot_product_attention(x[None], x[None], x[None]), 2 * 2 * N * N * D),
        (lambda x: (x.softmax(-1) * x).sum(1).sort().values.cumsum(0).tril(), 0),
        (lambda x: torch.nn.functional.layer_norm(x, (D,)).masked_fill_(x > 0, 0.0), 0),
    ],
)
def test_counts_are_those_made_by_hand(work: Callable[[Tensor], object], flops: int) -> None:
    assert counted_flops(Does(work), (1, N, D)) == flops


@pytest.mark.parametrize("length", [N, pytest.param(128, marks=pytest.mark.battery)])
@pytest.mark.parametrize(("name", "is_causal"), SOME_FORMS)
def test_every_formula_agrees(name: str, is_causal: bool, length: int) -> None:
    mixer = build_mixer(name, dim=D, max_length=128, is_causal=is_causal, heads=2).eval()
    assert counted_flops(mixer, (1, length, D)) == pytest.approx(mixer.flops(length), rel=0.01)


@pytest.mark.parametrize(("name", "is_causal"), SOME_FORMS)
def test_tensors_without_data_are_counted_like_those_with(name: str, is_causal: bool) -> None:
    """Compare counts on meta tensors with counts on real data, token by token for a recurrence."""
    mixer = build_mixer(name, dim=D, max_length=N, is_causal=is_causal, heads=2).eval()
    counter = torch.utils.flop_counter.FlopCounterMode(
        display=False, custom_mapping=dict(flop_count._FORMULAS)
    )
    with torch.no_grad(), counter:
        mixer(torch.randn(3, N, D))
    assert counted_flops(mixer, (3, N, D)) == counter.get_total_flops()


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
def test_layers_of_recurrences_are_all_counted(name: str) -> None:
    mixer = build_mixer(name, dim=D, layers=3).eval()
    assert counted_flops(mixer, (2, N, D)) == mixer.flops(N, batch=2)


def test_a_length_whose_scores_would_fill_a_terabyte_is_counted() -> None:
    mixer = build_mixer("attention", dim=D, kernel="materialised", heads=4).eval()
    length = 2**18
    assert counted_flops(mixer, (1, length, D)) == mixer.flops(length)


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (lambda x: torch.cdist(x, x), "aten._euclidean_dist|aten._cdist_forward"),
        (lambda x: torch.linalg.qr(x), "aten.linalg_qr.default"),
        (lambda x: torch.nn.functional.bilinear(x, x, x.new_ones(3, D, D)), "aten._trilinear"),
        (lambda x: x[0].addmm_(x[0] @ x[0].mT, x[0]), "aten.addmm_.default"),
    ],
)
def test_an_operation_without_a_formula_is_refused_by_name(
    work: Callable[[Tensor], object], name: str
) -> None:
    with pytest.raises(UncountedOperationError, match=f"({name}).* has no FLOPs formula"):
        counted_flops(Does(work), (1, N, D))


def test_an_operation_of_somebody_elses_is_refused_by_name() -> None:
    @library.custom_op("foreign::add", mutates_args=())
    def add(x: Tensor, by: int) -> Tensor:
        return x + by

    add.register_fake(lambda x, by: torch.empty_like(x))
    with pytest.raises(UncountedOperationError, match=r"foreign\.add"):
        counted_flops(Does(lambda x: add(x, 1)), (1, N, D))


def test_operations_that_ask_for_the_data_get_data() -> None:
    def work(x: Tensor) -> Tensor:
        kept = x[0][x[0, :, 0].abs() >= 0]  # keeps every token, but the shape depends on the data
        return kept @ kept.mT

    assert counted_flops(Does(work), (1, N, D)) == 2 * N * N * D


def test_no_product_is_taken_for_free() -> None:
    """Check that no operation with a formula is listed as free, whatever its torch tags."""
    registered = torch.utils.flop_counter.flop_registry.keys() | flop_count._FORMULAS.keys()
    x = torch.ones(1)
    for packet in registered:
        overloads = [getattr(packet, name) for name in getattr(packet, "overloads", list)()]
        assert not any(is_free(overload, (x,)) for overload in overloads)
