"""Check that every mixer has a peer, and that the peer computes the same where it should."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from bakeoff.models.registry import MIXERS, build_mixer, mixer_class
from tests.benchmarks.duels import SAME, NotTheSame, Row, duel, farthest, mixer_of
from tests.benchmarks.interleaved import Limits, Ratio
from tests.benchmarks.peers import NOT_YET_TIMED, PAIRINGS, Pairing, Peer
from tests.benchmarks.places import Pass, Shape, here
from tests.benchmarks.torch_peers import Adapter

SHAPE = Shape(batch=2, length=256, dim=16, heads=2)
SOON = Limits(warm_up_rounds=1, warm_up_seconds=0, least_rounds=3, most_rounds=3)
INSTALLED = [
    pytest.param(pairing, peer, id=f"{pairing.title}-{peer.name}")
    for pairing in PAIRINGS
    for peer in pairing.peers
    if peer.installed() and peer.check
]


@pytest.mark.parametrize("name", MIXERS)
def test_every_mixer_is_compared_and_its_causal_form_too(name: str) -> None:
    """Require a peer for both forms, or an entry in the list of mixers without one."""
    causal = {pairing.is_causal for pairing in PAIRINGS if pairing.mixer == name}
    if name in NOT_YET_TIMED:
        assert not causal
        return
    assert causal == ({False, True} if mixer_class(name).supports_causal else {False})


@pytest.mark.parity
@pytest.mark.filterwarnings("default")  # the packages raise warnings about their own parts
@pytest.mark.parametrize(("pairing", "peer"), INSTALLED)
def test_a_peer_with_our_parameters_gives_our_outputs(pairing: Pairing, peer: Peer) -> None:
    ours = mixer_of(pairing, SHAPE)
    theirs = peer.adapt(ours)
    with peer.check():
        assert farthest(ours, theirs, SHAPE, "cpu") <= SAME


def _duel(adapt: Adapter, **peer: Any) -> Row:
    pairing = Pairing(
        mixer="conv", is_causal=True, peers=(Peer(name="other", adapt=adapt, **peer),)
    )
    (row,) = duel(pairing, SHAPE, here(), SOON)
    return row


def _drawn_anew(ours: nn.Module) -> nn.Module:
    return build_mixer("conv", dim=16, is_causal=True)


def test_a_peer_that_gives_other_outputs_is_never_timed() -> None:
    with pytest.raises(NotTheSame, match="other"):
        _duel(_drawn_anew)


@pytest.mark.slow
def test_a_peer_that_says_that_it_differs_is_timed_with_its_reason() -> None:
    row = _duel(_drawn_anew, differs="drawn anew", check=None)
    assert (row.is_same, row.note) == (False, "drawn anew")
    assert row.ratio is not None
    assert row.peer_peak == row.peak


@pytest.mark.slow
@pytest.mark.parametrize("adapt", [copy.deepcopy, lambda ours: nn.Linear(3, 3)])
def test_without_its_package_or_failing_ours_is_timed_alone(adapt: Adapter) -> None:
    row = _duel(adapt, package="no-such-package" if adapt is copy.deepcopy else "torch")
    assert row.seconds > 0
    assert (row.ratio, row.peer_seconds, row.peer_peak, row.verdict) == (None, None, None, "")
    assert row.is_same is None
    assert "is not installed" in row.note if adapt is copy.deepcopy else "RuntimeError" in row.note


@pytest.mark.whole
def test_memory_is_what_a_pass_takes_beyond_parameters_and_input() -> None:
    """Expect three squares: the product, and the gradients of both factors."""
    place = here()

    class Square(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.eye(64))

        def forward(self, x: Tensor) -> Tensor:
            product: Tensor = x @ self.weight
            return product

    shape = Shape(batch=1, length=64, dim=64, heads=1)
    peak = place.peak_bytes(Pass(Square(), shape, place, torch.float32))
    assert peak == 3 * 64 * 64 * 4  # the gradient of the output is an input of the pass


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.9, 1.1, "yes"), (1.0, 1.2, "open"), (1.11, 1.2, "no")]
)
def test_the_interval_decides_the_verdict(low: float, high: float, verdict: str) -> None:
    row = Row(
        mixer="conv",
        title="conv",
        shape=SHAPE,
        peer="other",
        seconds=1.0,
        peak=1,
        ratio=Ratio(1.0, low, high),
    )
    assert row.verdict == verdict
