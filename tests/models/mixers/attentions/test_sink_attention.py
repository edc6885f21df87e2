"""Check properties of attention with sinks that the reference does not cover."""

from typing import Any

import pytest
import torch

from bakeoff.models import ModelError, build_mixer
from bakeoff.models.mixers.local_attention import LocalAttention
from tests.models.small_models import tokens


def build(name: str = "sink_attention", **knobs: Any) -> LocalAttention:
    torch.manual_seed(0)
    mixer = build_mixer(name, dim=8, **{"heads": 2} | knobs).double()
    assert isinstance(mixer, LocalAttention)
    return mixer


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("position", [None, "rope", "alibi", "t5"])
def test_between_a_window_and_all_of_attention(position: str | None, is_causal: bool) -> None:
    """Compare with local attention if there are no sinks, and with attention if all are sinks."""
    settings: dict[str, Any] = {"position": position, "is_causal": is_causal}
    local, attention = (
        build("local_attention", window=5, **settings),
        build_mixer("attention", dim=8, heads=2, **settings).double(),
    )
    x = tokens(70)
    for sinks, window, other in ((0, 5, local), (70, 1, attention), (30, 69, attention)):
        mixer = build(sinks=sinks, window=window, **settings)
        mixer.load_state_dict(other.state_dict())
        torch.testing.assert_close(mixer(x), other(x))
        torch.testing.assert_close(mixer.attention_weights(x), other.attention_weights(x))


@pytest.mark.parametrize("position", [None, "rope", "alibi", "t5"])
def test_weights_are_those_that_it_takes_means_with(position: str | None) -> None:
    mixer, x = build(sinks=3, window=4, position=position, is_causal=True), tokens(50)
    values = mixer.value(x).reshape(2, 50, 2, 4).transpose(1, 2)
    heads = mixer.attention_weights(x) @ values
    torch.testing.assert_close(mixer(x), mixer.output(heads.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("position", ["rope", "alibi"])
def test_no_distance_exceeds_the_cache(position: str) -> None:
    """Check that a query after the same sinks and window gives the same output, however late."""
    mixer = build(sinks=3, window=4, position=position, is_causal=True)
    first, between, last = tokens(3), tokens(40, seed=2), tokens(5, seed=3)
    late = mixer(torch.cat([first, between, last], dim=1))[:, -1]
    soon = mixer(torch.cat([first, last], dim=1))[:, -1]
    torch.testing.assert_close(late, soon)


def test_the_cache_stays_as_large_as_it_is() -> None:
    mixer = build(sinks=3, window=4, is_causal=True)
    assert [mixer.state_bytes(n) for n in (1, 7, 8, 10**6)] == [64, 448, 448, 448]


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"sinks": -1}, "sinks=-1 is below 0"),
        ({"window": 0}, "window=0 is below 1"),
        ({"heads": 3}, "heads=3 does not divide dim=8"),
        ({"position": "shaw"}, "shaw has no form in blocks"),
    ],
)
def test_a_knob_without_sense_is_refused(knobs: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=f"sink_attention: {message}"):
        build(**knobs)
