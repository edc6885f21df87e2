import pytest
import torch

from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds


def draw(seed: int, parts: list[str]) -> dict[str, float]:
    torch.manual_seed(seed)
    seeds, drawn = PartSeeds(), {}
    for name in parts:
        with seeds.part(name):
            drawn[name] = torch.rand(()).item()
    return drawn


def test_a_part_depends_on_seed_and_name_only() -> None:
    alone = draw(0, ["mlp"])
    among_others = draw(0, ["embedding", "mixer", "mlp"])
    assert among_others["mlp"] == alone["mlp"]
    assert len(set(among_others.values())) == 3
    assert draw(1, ["mlp"]) != alone


def test_takes_one_draw_from_the_global_stream_whatever_the_parts_draw() -> None:
    draw(0, [])
    after_none = torch.rand(())
    draw(0, ["a", "b"])
    assert torch.rand(()) == after_none
    torch.manual_seed(0)
    torch.randint(2**62, ())
    assert torch.rand(()) == after_none


def test_two_models_in_a_row_differ() -> None:
    torch.manual_seed(0)
    with PartSeeds().part("mlp"):
        first = torch.rand(())
    with PartSeeds().part("mlp"):
        assert torch.rand(()) != first


def test_parts_below_different_prefixes_differ() -> None:
    torch.manual_seed(0)
    seeds, drawn = PartSeeds(), []
    for inner in (seeds, seeds.within("encoder"), seeds.within("decoder").within("upper")):
        with inner.part("blocks.0.mixer"):
            drawn.append(torch.rand(()).item())
    assert len(set(drawn)) == 3


def test_a_part_that_is_drawn_twice_is_refused() -> None:
    """Check that two stacks of one model cannot start bit-identical."""
    seeds = PartSeeds()
    with seeds.part("blocks.0.mixer"):
        pass
    with seeds.within("encoder").part("blocks.0.mixer"):
        pass
    with pytest.raises(ModelError, match=r"the part 'blocks.0.mixer' is drawn twice"):
        seeds.part("blocks.0.mixer").__enter__()
