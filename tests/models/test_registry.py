import importlib
import pkgutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import bakeoff.models.mixers
from bakeoff import models
from bakeoff.models import (
    ARCHITECTURES,
    MIXERS,
    POSITIONS,
    Mixer,
    ModelError,
    architecture_class,
    build_mixer,
    build_model,
    build_shapes,
    mixer_class,
    mixer_config,
    position_class,
)
from bakeoff.models.registry import relative_position
from tests.models.small_models import spec

SPEC = spec("language_model", position="sinusoidal")

OWN = """
from dataclasses import dataclass
from bakeoff.models import Mixer

class Average(Mixer):
    supports_causal = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        gain: float = 1.0

    def __init__(self, *, dim, max_length, is_causal, config):
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        self.gain = config.gain

    def forward(self, x, mask=None, context=None, context_mask=None):
        return self.gain * x.mean(dim=1, keepdim=True).expand_as(x)

class Unfinished(Mixer):
    pass

class Stranger:
    pass
"""


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_mixers_for_test.py").write_text(OWN)
    (tmp_path / "broken_mixers_for_test.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_mixers_for_test", raising=False)
    return "own_mixers_for_test"


def test_every_public_name_resolves() -> None:
    for name in models.__all__:
        assert getattr(models, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Mixr'"):
        _ = models.Mixr


def test_every_mixer_file_is_listed_and_every_line_resolves() -> None:
    found = pkgutil.walk_packages(bakeoff.models.mixers.__path__, "bakeoff.models.mixers.")
    files = {module.name for module in found if not module.ispkg}
    listed = {path.partition(":")[0] for path in MIXERS.values()}
    assert listed == files
    assert [mixer_class(name).name for name in MIXERS] == list(MIXERS)
    assert all(f".{name}:" in path for name, path in MIXERS.items())


def test_mixers_are_grouped_by_family() -> None:
    families = [mixer_class(name).family for name in MIXERS]
    assert families == sorted(families, key=families.index)


def test_every_position_and_architecture_resolves() -> None:
    for name in POSITIONS:
        assert position_class(name).version >= 1
    for name in ARCHITECTURES:
        assert architecture_class(name).name == name


@pytest.mark.parametrize(
    ("resolve", "wrong", "close"),
    [
        (mixer_class, "atention", "attention"),
        (mixer_class, "lsmt", "lstm"),
        (position_class, "sinusoid", "sinusoidal"),
        (architecture_class, "clasifier", "classifier"),
    ],
)
def test_an_unknown_name_gets_near_ones_and_the_list(resolve, wrong: str, close: str) -> None:
    with pytest.raises(ModelError, match=f"unknown .* '{wrong}'; did you mean '{close}'") as error:
        resolve(wrong)
    assert isinstance(error.value, ValueError)
    assert "s all; your own is" in str(error.value)  # and not eighty names
    assert "package.module:Class" in str(error.value)


def test_a_users_own_mixer_is_built_and_labelled_unproven(own_module: str) -> None:
    mixer = build_mixer(f"{own_module}:Average", dim=6, heads=2, gain=2)
    assert isinstance(mixer, Mixer)
    assert not mixer.is_proven()
    assert not mixer.has_flops_formula()
    assert type(mixer.gain) is float
    with pytest.raises(ModelError, match="unproven"):
        mixer.reference(None)
    model = build_model(spec("language_model", f"{own_module}:Average"))
    with pytest.raises(ModelError, match="gives no FLOPs formula"):
        model.flops(8)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("{}:Averge", "no 'Averge'; did you mean 'Average'"),
        ("{}:Stranger", "is not a subclass of bakeoff.models.mixer.Mixer"),
        ("{}:OWN", "has no 'OWN'"),
        ("{}:Unfinished", "does not define forward"),
        ("bakeoff.models.mixer:Mixer", "does not define forward"),
        ("bakeoff.models.mixer:without_padding", "is not a subclass"),
        ("no_such_package.x:Class", "cannot be imported: ModuleNotFoundError: No module named"),
        ("broken_mixers_for_test:X", "cannot be imported: ZeroDivisionError"),
        ("{}:", "not written package.module:Class"),
        (":Average", "not written package.module:Class"),
        ("a:b:c", "not written package.module:Class"),
        ("../x:Class", "not written package.module:Class"),
    ],
)
def test_a_users_mistake_is_one_sentence(own_module: str, path: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as error:
        mixer_class(path.format(own_module))
    assert "\n" not in str(error.value)


def test_heads_reach_mixers_that_have_them_and_no_others() -> None:
    assert mixer_config("attention", dim=64, heads=8, knobs={}).heads == 8
    assert mixer_config("attention", dim=64, knobs={}).heads == 4
    assert build_mixer("attention", dim=64).heads == 4
    assert mixer_config("lstm", dim=64, heads=8, knobs={}) == mixer_config("lstm", dim=64, knobs={})
    with pytest.raises(ModelError, match=r"lstm has no knob 'heads'.*its knobs are layers"):
        mixer_config("lstm", dim=64, knobs={"heads": 4})
    with pytest.raises(ModelError, match="heads=4 and the knob heads=8 differ"):
        mixer_config("attention", dim=64, heads=4, knobs={"heads": 8})


@pytest.mark.parametrize("position", ["none", "sinusoidal", "learned"])
def test_an_absolute_position_inside_a_mixer_is_refused(position: str) -> None:
    with pytest.raises(ModelError, match=f"position='{position}' does not act inside a mixer"):
        build_mixer("attention", position=position)


def test_which_positions_are_relative() -> None:
    assert [name for name in POSITIONS if relative_position(name)] == [
        "shaw",
        "t5",
        "rope",
        "alibi",
    ]


@pytest.mark.parametrize("value", [0, -1, 8.0, True, "8"])
@pytest.mark.parametrize("key", ["dim", "max_length"])
def test_sizes_are_whole_and_positive(key: str, value: object) -> None:
    with pytest.raises(ModelError, match=f"{key}={value!r} is not a whole number of at least 1"):
        build_mixer("fnet", **{key: value})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mixer": "conv", "architecture": "classifier", "knobs": {"kernel_size": 4}}, "no centre"),
        ({"mixer": "lstm", "architecture": "classifier", "dim": 7}, "even dim"),
        ({"mixer": "fnet"}, "fnet cannot stand in language_model, which is causal: each output"),
        ({"knobs": {"heads": 3}}, "heads=3 does not divide dim=16"),
        ({"position": "rop"}, "unknown position 'rop'; did you mean 'rope'"),
        ({"position": "rope", "mixer": "lstm"}, "lstm takes no relative position .rope.: it comp"),
        ({"position": "rope", "knobs": {"heads": 16}}, "rope rotates pairs of numbers"),
        ({"settings": {"dropout": 1.0}}, "language_model: dropout=1.0 is not at least 0 and below"),
        ({"settings": {"pooling": "mean"}}, "language_model has no knob 'pooling'"),
        ({"architecture": "encoder"}, "unknown architecture 'encoder'"),
        ({"input_kind": "vectors"}, "language_model takes tokens as inputs, not vectors"),
        ({"output_size": 6}, "ties its output to its embedding"),
        ({"depth": 0}, "depth=0 is not a whole number"),
    ],
)
def test_a_plan_can_refuse_a_model_without_building_it(changes: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        build_shapes(replace(SPEC, **changes))
    with pytest.raises(ModelError, match=message):
        build_model(replace(SPEC, **changes))


def test_a_truncated_normal_is_not_drawn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a shape-only build, whose memory is uninitialised, is not redrawn without end."""
    torch = importlib.import_module("torch")
    empty = torch.empty

    def far_off(*shape: int, **named: object) -> object:
        return empty(*shape, **named).fill_(9.0)

    monkeypatch.setattr(torch, "empty", far_off)
    build_shapes(replace(SPEC, settings={"initialisation": "truncated_normal"}))


def test_checking_a_model_costs_no_memory_and_no_random_number() -> None:
    torch = importlib.import_module("torch")
    before = torch.get_rng_state()
    for settings in ({}, {"initialisation": "truncated_normal", "position_mode": "concatenated"}):
        huge = replace(SPEC, dim=8192, depth=4, length=65536, settings=settings)
        build_shapes(huge)  # it would take 13 GB
    assert torch.equal(torch.get_rng_state(), before)
