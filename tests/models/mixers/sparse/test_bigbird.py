"""Check properties of BigBird that the reference does not cover."""

from functools import partial
from typing import Any

import pytest
import torch

from bakeoff.models import Mixer, ModelError, build_mixer
from tests.models import small_models
from tests.models.small_models import sees

tokens = partial(small_models.tokens, 40)


def build(**knobs: Any) -> Mixer:
    torch.manual_seed(0)
    knobs = {"heads": 2, "max_length": 64, "block": 4, **knobs}
    return build_mixer("bigbird", dim=8, **knobs).double()


@pytest.mark.parametrize(
    "everything", [{"num_global": 16}, {"window": 16}, {"num_random": 16}, {"block": 40}], ids=str
)
def test_where_all_blocks_are_seen_it_is_attention(everything: dict[str, int]) -> None:
    mixer, x = build(**everything), tokens()
    attention = build_mixer("attention", dim=8, heads=2).double()
    attention.load_state_dict(mixer.state_dict())
    mask = torch.arange(40) < torch.tensor([[40], [23]])
    torch.testing.assert_close(mixer(x), attention(x))
    torch.testing.assert_close(mixer(x, mask)[mask], attention(x, mask)[mask])


def test_each_row_sees_window_global_and_random_blocks() -> None:
    """Check a sequence of full length; the first rows are global and attend to all."""
    seen = sees(build(num_global=2, window=1, num_random=3), 64)[::4, ::4]
    assert seen[:2].all()
    assert seen[:, :2].all()
    assert all(seen[i, max(i - 1, 0) : i + 2].all() for i in range(16))
    assert seen[4:15].sum(dim=1).tolist() == 11 * [2 + 3 + 3]


def test_without_random_and_global_blocks_it_is_a_window() -> None:
    field = sees(build(num_global=0, num_random=0, window=2), 64)
    places = torch.arange(64) // 4
    assert torch.equal(field, (places[:, None] - places).abs() <= 2)


def test_random_blocks_follow_from_the_seed_alone() -> None:
    fields = [sees(build(seed=seed), 64) for seed in (0, 0, 1)]
    assert torch.equal(fields[0], fields[1])
    assert not torch.equal(fields[0], fields[2])


def test_layers_have_random_blocks_of_their_own() -> None:
    layers = [build() for _ in range(2)]
    for layer, mixer in enumerate(layers):
        mixer.take_place(layer, layers[0])
    first, second = (sees(mixer, 64) for mixer in layers)
    assert not torch.equal(first, second)
    torch.testing.assert_close(layers[1](tokens()), layers[1].reference(tokens()))


@pytest.mark.parametrize("key", ["num_global", "num_random", "seed"])
def test_fewer_than_none_are_refused(key: str) -> None:
    with pytest.raises(ModelError, match=f"bigbird: {key}=-1 is below 0"):
        build(**{key: -1})
