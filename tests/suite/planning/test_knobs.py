"""Tests for own mixers, which are imported, built and called before any trial; reported faults."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bakeoff.models import MIXERS, mixer_class
from bakeoff.reports.pages.summary import facts
from bakeoff.suite import timeouts
from bakeoff.suite.planning.cells import mixer_version
from bakeoff.suite.planning.knobs import knob_names, taken_names
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.planning.resolve import _why_unbuildable
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import SpecError
from tests.suite.small_ablation import WriteAblation

AVERAGE = '''
"""Every token becomes the sum of those so far."""

from dataclasses import dataclass

from bakeoff.models import Mixer, ModelError


class Average(Mixer):
    """No reference, no formula of FLOPs: timed all the same, and unproven."""

    supports_causal = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """How strongly."""

        strength: float = 1.0

    def forward(self, x, mask=None, context=None, context_mask=None):
        return self.strength * x.cumsum(1)

    def __init__(self, *, dim, max_length, is_causal, config):
        super().__init__(dim=dim, max_length=max_length, is_causal=is_causal, config=config)
        self.strength = config.strength
'''

Planned = Callable[..., Plan]


@pytest.fixture
def planned(write_ablation: WriteAblation, tmp_path: Path) -> Planned:
    """Return a function that plans an ablation with `AVERAGE` as baseline, after replacements."""

    def make(
        *replaced: tuple[str, str], name: str = "own.average:Average", knobs: str = ""
    ) -> Plan:
        source = AVERAGE
        for old, new in replaced:
            assert old in source
            source = source.replace(old, new)
        (tmp_path / "own").mkdir(exist_ok=True)
        (tmp_path / "own" / "average.py").write_text(source)
        path = write_ablation(
            baseline=f'Model(mixer="{name}"{knobs})',
            axes='[vary("position", ["sinusoidal", "none"])]',
            probes='["quality", "flops"]',
        )
        # The process loads several versions of the source.
        for remembered in (mixer_version, _why_unbuildable):
            remembered.cache_clear()
        return plan(str(path), seeds=1)

    return make


FORWARD = "return self.strength * x.cumsum(1)"
SIGNATURE = "def forward(self, x, mask=None, context=None, context_mask=None):"
INIT = "self.strength = config.strength"
FAULTS = {
    "no such module": ((), {"name": "own.averag:Average"}, "No module named 'own.averag'"),
    "no such package": ((), {"name": "nowhere.average:Average"}, "No module named 'nowhere'"),
    "no such class": ((), {"name": "own.average:Averge"}, "did you mean 'Average'"),
    "not written so": ((), {"name": "own/average.py:Average"}, "package.module:Class"),
    "not a mixer": (
        (),
        {"name": "own.average:dataclass"},
        "is not a subclass of bakeoff.models.mixer.Mixer",
    ),
    "abstract": (((SIGNATURE, "def mix(self, x):"),), {}, "does not define forward"),
    "raises on import": ((("from dataclasses", "1 / 0\nfrom dataclasses"),), {}, "ZeroDivision"),
    "ends the program": (
        (("from bakeoff.models import", "raise SystemExit(0)\nfrom models import"),),
        {},
        "ends the program (SystemExit(0))",
    ),
    "Config is no dataclass": ((("@dataclass(frozen=True, kw_only=True)", ""),), {}, "dataclass"),
    "unknown knob": ((), {"knobs": ", strenth=1.0"}, "did you mean 'strength'"),
    "knob of an architecture's name": (
        (("strength: float", "dropout: float"), ("config.strength", "config.dropout")),
        {},
        "mixer 'own.average:Average': architectures have a 'dropout' already",
    ),
    "knob of a scale's name": (
        (("strength: float", "steps: float"), ("config.strength", "config.steps")),
        {},
        "mixer 'own.average:Average': an ablation has a 'steps' already",
    ),
    "mistyped knob": ((), {"knobs": ', strength="1"'}, "strength='1' is not allowed"),
    "wrong constructor": ((("max_length, is_causal, config):", "is_causal):"),), {}, "TypeError"),
    "raises when built": (((INIT, "raise KeyError('kernel')"),), {}, "KeyError: 'kernel'"),
    "wrong signature": (((SIGNATURE, "def forward(self, x):"),), {}, "TypeError"),
    "wrong shape": (((FORWARD, "return x.mean(dim=1)"),), {}, "not (1, 16)"),
    "a tuple": (((FORWARD, "return x, None"),), {}, "not tuple"),
    "not causal": ((("supports_causal = True", ""),), {}, "cannot be causal"),
    "a formula that is no number": (
        ((INIT, INIT + "\n    def flops(self, length, batch=1):\n        return None"),),
        {},
        "must be a number of at least 0, not None",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_faulty_mixer_is_refused(case: str, planned: Planned) -> None:
    replaced, fields, fragment = FAULTS[case]
    with pytest.raises(SpecError) as caught:
        planned(*replaced, **fields)
    assert fragment in str(caught.value)
    assert "mine.py" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_mixer_whose_import_never_returns_is_ended(
    planned: Planned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "SECONDS_TO_IMPORT", 1)
    start = time.monotonic()
    with pytest.raises(SpecError, match="did not finish within 1 s"):
        planned(("from bakeoff.models import", "while True: pass\nfrom models import"))
    assert time.monotonic() - start < 5


def test_a_mixer_without_reference_is_planned_under_its_files_hash(
    planned: Planned, tmp_path: Path
) -> None:
    found = planned()
    assert found.source_paths == (str(tmp_path),)
    assert {cell.reason for cell in found.cells} == {""}
    (said,) = (point.text for point in facts(found.about) if point.title == "Unproven")
    assert said.startswith("own.average:Average has no reference")
    version = mixer_version("own.average:Average")
    assert len(found.trials) == 4
    for trial in found.trials:
        assert trial.versions["mixer own.average:Average"] == version
        assert dict(trial.subjects[0].knobs) == {"strength": 1.0}


def test_ours_have_no_knob_that_means_something_else_in_an_ablation() -> None:
    found = {name: knob_names(mixer_class(name)) & taken_names() for name in MIXERS}
    assert found == {name: set() for name in MIXERS}


TAKES_POSITIONS = (
    ("supports_causal = True", "supports_causal = supports_relative = True"),
    ("max_length, is_causal, config):", "max_length, is_causal, config, position=None):"),
    (INIT, f"{INIT}; assert position.name == 'rope'"),
)


def test_it_is_handed_the_relative_position_that_it_takes(planned: Planned) -> None:
    (subject,) = planned(*TAKES_POSITIONS, knobs=', position="rope"').trials[0].subjects
    assert subject.position == "rope"


def test_a_relative_position_that_it_does_not_take_is_refused(planned: Planned) -> None:
    with pytest.raises(SpecError, match=r"takes no relative position \(rope\): it computes no"):
        planned(knobs=', position="rope"')


def test_it_is_tried_with_room_for_a_class_token(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    looks = f"{INIT}; assert max_length == 50, max_length"
    (tmp_path / "own_long.py").write_text(AVERAGE.replace(INIT, looks))
    knobs = 'mixer="own_long:Average", pooling='
    for pooling, is_refused in (("class_token", False), ("mean", True)):
        path = write_ablation(
            baseline=f'Model({knobs}"{pooling}")',
            axes='[vary("strength", [1.0, 2.0])]',
            tasks='["fashion_mnist_patches"]',
        )
        if is_refused:
            with pytest.raises(SpecError, match="AssertionError: 49"):
                plan(str(path), seeds=1)
        else:
            assert plan(str(path), seeds=1).trials


def test_its_constructor_may_look_at_data(planned: Planned) -> None:
    """Check that an own mixer is built with real tensors, not with shapes alone."""
    looks = "import torch; self.strength = float(torch.ones(2).sum().item())"
    assert planned((INIT, looks)).trials


def test_its_own_refusal_of_a_value_is_a_row(write_ablation: WriteAblation, tmp_path: Path) -> None:
    check = (
        "\n\n        def __post_init__(self):\n            assert self.strength < 5, 'too strong'"
    )
    (tmp_path / "own_strong.py").write_text(
        AVERAGE.replace("strength: float = 1.0", "strength: float = 1.0" + check)
    )
    path = write_ablation(
        baseline='Model(mixer="own_strong:Average")', axes='[vary("strength", [1.0, 9])]'
    )
    reasons = {cell.variant: cell.reason for cell in plan(str(path), seeds=1).cells}
    assert reasons["strength=1.0"] == ""
    assert reasons["strength=9"].endswith("AssertionError: too strong")
