"""Test invalid specifications in a user's files, given to `bakeoff run`.

Each is refused before anything runs: exit 2, one sentence that names the file, and no file made. A
key begins with the line of the list that it covers; the others are similar cases.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from bakeoff.reports.literature import csv as published_files
from bakeoff.suite import timeouts
from tests.bad_inputs.command import Called, Place, WriteAblation, expect, expect_refused

TEXT, IMAGES = "shakespeare_characters", "fashion_mnist_patches"


def _scale(**changes: str) -> dict[str, str]:
    """Return the part `scales` with fields changed or added."""
    fields = {"dim": "16", "depth": "1", "length": "8", "steps": "4", "batch": "2", **changes}
    said = ", ".join(f"{name}={value}" for name, value in fields.items())
    return {"scales": f'{{"quick": Scale({said})}}'}


def _model(said: str) -> dict[str, str]:
    return {"baseline": f"Model({said})"}


def _axes(*said: str, combine: str = "one_at_a_time") -> dict[str, str]:
    return {"axes": f"[{', '.join(said)}]", "combine": repr(combine)}


def _claim(**changes: str) -> dict[str, str]:
    fields = {"metric": '"bits_per_character"', "a": '"heads=1"', "b": '"heads=4"', "by": "0.1"}
    said = ", ".join(f"{name}={value}" for name, value in {**fields, **changes}.items())
    return {"claim": f'Claim("one beats four", {said})'}


SOURCES: dict[str, tuple[str, list[str]]] = {
    "line-01 an empty file": ("", ["named ABLATION; this file contains no Ablation"]),
    "line-02 a syntax error": ("\n\nx = (\n", ["mine.py:3: '(' was never closed."]),
    "line-03 no ablation": ("x = 1\n", ["contains no Ablation"]),
    "line-03 of another type": ("ABLATION = {}\n", ["ABLATION is of type dict"]),
    "line-03 the class itself": (
        "from bakeoff import Ablation as ABLATION\n",
        ["ABLATION is the class Ablation"],
    ),
    "line-17 raises on import": ("x = 1\nraise RuntimeError('a')", ["mine.py:2: RuntimeError: a"]),
    "line-17 imports what is missing": ("import nowhere_at_all", ["mine.py:1: ModuleNotFound"]),
    "ends the program": ("import sys; sys.exit(0)", ["the file ends the program (SystemExit(0))"]),
    "raises what is no Exception": (
        "class Odd(BaseException): pass\nraise Odd('gone')",
        ["mine.py:2: Odd: gone"],
    ),
    "raises what cannot be printed": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
        ["mine.py:3: Odd: (its message is not available)"],
    ),
    "raises ten megabytes": ("raise RuntimeError('x' * 10**7)", ["mine.py:1: RuntimeError: xxx"]),
    "raises escape sequences": (r"raise RuntimeError('\x1b[2J\n\u202e')", [r"\x1b[2J\n\u202e"]),
    "one that lies about its class": (
        "class Odd:\n    @property\n    def __class__(self): raise OSError\n\n"
        "odd = Odd()\nABLATION = 3",
        ["ABLATION is of type int"],
    ),
    "changes what is frozen": (
        "from bakeoff import vary\nvary('heads', [1]).name = 'dim'",
        ["mine.py:2: Axis: name: Instance is frozen."],
    ),
    "brackets within brackets": ("x = " + "(" * 5_000 + ")" * 5_000, ["too many nested"]),
    "signs before signs": ("x = " + "-" * 50_000 + "1", ["too deeply nested for Python"]),
    "two megabytes": ("x = 1\n" * 350_000, ["at most 1048576 bytes", "2100000"]),
    "nothing but zeros": ("\0" * 100, ["null bytes"]),
    "not text": ("# coding: nonsense\n", ["unknown encoding"]),
    "writes over its own module": (
        "import sys\ndel sys.modules[__name__]\nABLATION = None",
        ["of type NoneType"],
    ),
}

PARTS: dict[str, tuple[dict[str, str], list[str]]] = {
    "line-04 an unknown field": (
        _scale(lernin_rate="0.1"),
        ["mine.py:10: Scale: no field 'lernin_rate'; did you mean 'learning_rate'"],
    ),
    "line-05 a string for a number": (_scale(learning_rate='"1e-3"'), ["learning_rate='1e-3'"]),
    "line-05 a bool for a whole number": (_scale(steps="True"), ["steps=True", "whole number"]),
    "line-05 8.0 heads": (
        _model('mixer="attention", heads=8.0'),
        ["heads=8.0", "a whole number"],
    ),
    "line-06 NaN": (_scale(weight_decay='float("nan")'), ["weight_decay=nan", "finite"]),
    "line-06 infinity": (_scale(learning_rate='float("inf")'), ["learning_rate=inf"]),
    "line-06 a claim by NaN": (_claim(by='float("nan")'), ["by=nan", "finite"]),
    "line-07 no length": (_scale(length="0"), ["length=0", "equal to 1"]),
    "line-07 a negative batch": (_scale(batch="-2"), ["batch=-2", "equal to 1"]),
    "line-07 no steps": (_scale(steps="0"), ["steps=0", "equal to 1"]),
    "line-07 no seeds": (_scale(seeds="0"), ["seeds=0", "equal to 1"]),
    "line-08 10^26 steps": (_scale(steps="10**26"), ["steps=1000", "equal to 100000000"]),
    "line-08 a rate of 10^400": (_scale(learning_rate="10**400"), ["learning_rate=1000"]),
    "line-08 a decay of 10^400": (_scale(weight_decay="10**400"), ["weight_decay=1000"]),
    "line-08 a knob of 10^26": (_model('mixer="conv", kernel_size=10**26'), ["at most 2**53"]),
    "line-08 10^26 values": (_axes('vary("steps", range(1, 10**26))'), ["give 1 to 10000"]),
    "line-09 heads that do not divide the width": (
        _model('mixer="attention", heads=3'),
        ["attention: heads=3 does not divide dim=16"],
    ),
    "line-10 an unknown mixer": (_model('mixer="atention"'), ["did you mean 'attention'"]),
    "line-10 an unknown task": (
        {"tasks": '["shakespear"]'},
        ["no task 'shakespear'", "did you mean 'shakespeare_"],
    ),
    "line-10 an unknown probe": ({"probes": '["qualty"]'}, ["did you mean 'quality'"]),
    "line-10 an unknown position": (
        _model('mixer="attention", position="rop"'),
        ["no position 'rop'", "did you mean 'rope'"],
    ),
    "line-10 an unknown metric": (_claim(metric='"bits"'), ["the claim: no metric 'bits'"]),
    "line-11 a claim about no variant": (
        _claim(a='"heads=2"'),
        ["the claim: no variant 'heads=2'", "heads=4"],
    ),
    "line-11 a claim about no metric": (
        _claim(metric='"parameter"'),
        ["the claim: no metric 'parameter'", "num_parameters"],
    ),
    "line-12 an axis that names no field": (
        _axes('vary("hedas", [1])'),
        ["no axis 'hedas'; did you mean 'heads'"],
    ),
    "line-13 an empty axis": (_axes('vary("heads", [])'), ["'heads'", "no value"]),
    "line-16 a line break in a name": (_model(r'mixer="a\nb"'), [r"mixer='a\nb'", "printable"]),
    "line-16 an override in a name": (_model(r'mixer="a\u202eb"'), [r"'a\u202eb'", "printable"]),
    "line-16 a path for a name": (_model('mixer="../../x"'), ["'../../x'", "attention"]),
    "line-16 300 characters in a name": (_model('mixer="x" * 300'), ["at most 200 characters"]),
    "line-18 a mixer of no module": (_model('mixer="nowhere.at_all:X"'), ["No module named"]),
    "line-18 a mixer that is none": (_model('mixer="json:JSONDecoder"'), ["is not a subclass of"]),
    "line-18 a name that leads elsewhere": (_model('mixer="../x:Y"'), ["package.module:Class"]),
    "line-19 an impossible baseline": (
        _model('mixer="fnet"') | _axes('vary("depth", [1, 2])'),
        [f"the baseline is impossible on {TEXT}: fnet cannot be causal"],
    ),
    "a question of a megabyte": ({"question": '"a" * 10**6'}, ["question", "2000 characters"]),
    "a question with an escape sequence": ({"question": r'"\x1b[2J?"'}, ["question", "printable"]),
    "a surrogate in a question": ({"question": r'"\ud800?"'}, ["question", "unicode"]),
    "a surrogate in a value": (_axes(r'vary("mixer", ["\ud800"])'), ["printable"]),
    "a megabyte for a value": (_axes('vary("mixer", ["x" * 10**6])'), ["200 printable"]),
    "a megabyte for an axis": (_axes('vary("x" * 10**6, [1])'), ["2000 characters"]),
    "a number for an axis": (_axes("vary(3, [1])"), ["Axis: name=3", "a text"]),
    "a Decimal": (_scale(learning_rate='__import__("decimal").Decimal("0.1")'), ["Decimal"]),
    "a complex number": (_axes('vary("learning_rate", [1j])'), ["1j must be"]),
    "a fraction": (_axes('vary("dim", [__import__("fractions").Fraction(8)])'), ["Fraction(8, 1)"]),
    "bytes": (_model('mixer=b"attention"'), ["b'attention'", "a text"]),
    "an int64 of numpy": (_axes('vary("dim", [__import__("numpy").int64(8)])'), ["int64(8)"]),
    "an array of numpy": (_scale(learning_rate='__import__("numpy").ones(3)'), ["learning_rate"]),
    "a value that cannot be shown": (
        _axes('vary("dim", [type("Odd", (), {"__repr__": lambda self: 1 / 0})()])'),
        ["Odd instance"],
    ),
    "no scale for a scale": ({"scales": '{"quick": None}'}, ["scales.quick=None", "Scale"]),
    "a thousand axes": (_axes('*[vary(f"a{i}", [1]) for i in range(1000)]'), ["at most 64"]),
    "a task of a megabyte": ({"tasks": '["x" * 10**6]'}, ["8000 characters"]),
    "a model for an ablation": ({"baseline": "Scale"}, ["baseline", "Model"]),
    "two values that read alike": (_axes('vary("heads", [1, "1"])'), ["with the same text"]),
    "an axis twice": (_axes('vary("heads", [1])', 'vary("heads", [2])'), ["'heads' is given"]),
}


@pytest.mark.parametrize("case", [*SOURCES, *PARTS])
def test_a_file_that_is_no_ablation_or_cannot_be_meant(
    case: str, write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    said, fragments = (SOURCES | PARTS)[case]
    path = write_ablation(said) if isinstance(said, str) else write_ablation(**said)
    expect_refused(called("run", str(path)), 2, [str(path), *fragments], place)


TOO_MANY = {
    "line-14 a cross of 10^9": (
        _axes(
            *(f'vary("{name}", range(1, 1001))' for name in ("dim", "depth", "steps")),
            combine="cross",
        ),
        ["the cross has 1000000000 combinations; at most 10000"],
    ),
    "line-14 10^8 with each": (
        _axes(
            'vary("dim", range(1, 10001))',
            'vary("steps", range(1, 10001))',
            combine="first_with_each",
        ),
        ["has 100010000 variants; at most 10000"],
    ),
    "line-14 10^5 one at a time": (
        _axes(*(f'vary("{name}", range(1, 10001))' for name in ("dim", "steps", "batch"))),
        ["the axes have 30000 values together; at most 10000"],
    ),
    "line-14 10^5 seeds of one": (
        _axes('vary("steps", range(1, 5001))') | _scale(seeds="10000"),
        ["at most 100000 are"],
    ),
}


@pytest.mark.parametrize("case", TOO_MANY)
def test_too_many_are_counted_and_not_made(
    case: str, write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    parts, fragments = TOO_MANY[case]
    path = write_ablation(**parts)
    start = time.process_time()
    ended = called("run", str(path))
    assert time.process_time() - start < 1.0  # CPU time, which excludes other processes
    expect_refused(ended, 2, [str(path), *fragments])


NAMES = {
    "line-15 a name that ships": (
        "heads.py",
        "'heads' is the name of a shipped ablation; rename the file",
    ),
    "line-15 a name of Python's": ("json.py", "a Python module 'json' exists already"),
    "line-16 a line break in the name": ("a\nb.py", r"a\nb.py: the name of an ablation file"),
    "line-16 an override in the name": (
        "a\u202eb.py",
        r"a\u202eb.py: the name of an ablation file",
    ),
    "letters beyond ASCII": ("hé.py", "lower-case letters, digits and underscores"),
    "shell metacharacters": (";$(touch x).py", "lower-case letters, digits and underscores"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_that_no_ablation_can_have(
    case: str, write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    name, fragment = NAMES[case]
    expect_refused(called("run", str(write_ablation(name=name))), 2, [fragment], place)


@pytest.mark.parametrize(
    "make",
    [
        Path.mkdir,
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path),
        lambda path: None,
    ],
    ids=["a folder", "a pipe", "endless", "in a circle", "nothing"],
)
def test_what_is_no_file_is_not_opened(
    make: object, tmp_path: Path, place: Place, called: Called
) -> None:
    path = tmp_path / "mine.py"
    make(path)  # type: ignore[operator]
    expect_refused(called("run", str(path)), 2, [f"{path}: no such ablation file."])


NEVER = {
    "line-17 never returns": "while True: pass",
    "line-17 catches what ends it": (
        "while True:\n    try:\n        while True: pass\n    except Exception: pass"
    ),
}


@pytest.mark.parametrize("case", NEVER)
def test_a_file_that_never_returns_is_ended(
    case: str, write_ablation: WriteAblation, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "SECONDS_TO_IMPORT", 0.5)
    ended = called("plan", str(write_ablation(NEVER[case])))
    expect_refused(ended, 2, ["did not finish within 0.5 s of being imported"])


@pytest.mark.slow
def test_line_17_a_file_that_catches_everything_ends_the_process(
    write_ablation: WriteAblation, place: Place
) -> None:
    """Run a separate process, because only its end can stop the file."""
    stubborn = "while True:\n    try:\n        while True: pass\n    except: pass"
    path = write_ablation(
        "from bakeoff.suite import timeouts\n"
        "timeouts._ALARMS[0].due, timeouts._ALARMS[0].seconds_between = 0.0, 0.1\n"
        "timeouts._set_timer()\n" + stubborn
    )
    ended = place.installed("plan", str(path))
    expect_refused(ended, 2, ["the file did not finish within 10 s of being imported."])


@pytest.mark.whole
def test_a_file_that_leaves_a_thread_for_ever_does_not_keep_the_command(
    write_ablation: WriteAblation, place: Place
) -> None:
    path = write_ablation(
        "import threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    )
    expect_refused(place.installed("plan", str(path)), 2, ["leaves the thread"])


def test_a_file_may_neither_print_into_our_output_nor_move_us(
    write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    path = write_ablation()
    path.write_text(
        "__doc__ = chr(0xD800)\nimport os\nos.chdir('/')\nprint('x' * 10**6)\n"
        + path.read_text().partition("\n")[2]
    )
    before = Path.cwd()
    ended = called("plan", str(path), "--json")
    assert ended.code == 0
    assert json.loads(ended.stdout)
    assert "x" * 1000 in ended.stderr
    assert len(ended.stderr) < 5000
    assert "(the rest of its output is omitted)" in ended.stderr
    assert Path.cwd() == before


@pytest.mark.bad_input(13)
@pytest.mark.filterwarnings("default::bakeoff.suite.spec.RepeatedValue")
def test_a_value_given_twice_counts_once_and_that_is_said_once(
    write_ablation: WriteAblation, called: Called
) -> None:
    path = write_ablation(axes='[vary("heads", [1, 4, 4, 4])]')
    with pytest.warns(match=r"vary\('heads'\) names 4 more than once; it is used once") as said:
        ended = called("plan", str(path), "--json")
    assert ended.code == 0
    assert {row["variant"] for row in json.loads(ended.stdout)} >= {"heads=1", "heads=4"}
    assert [(each.filename, each.lineno) for each in said] == [(str(path), 7)]


@pytest.mark.bad_input(19)
def test_an_impossible_cell_is_a_row_with_its_reason(
    write_ablation: WriteAblation, called: Called
) -> None:
    path = write_ablation(axes='[vary("heads", [3, 4])]', probes='["quality"]')
    ended = called("plan", str(path), "--json")
    expect(ended, 0, [])
    reasons = {row["variant"]: row["reason"] for row in json.loads(ended.stdout)}
    assert reasons == {"heads=3": "attention: heads=3 does not divide dim=16", "heads=4": ""}


MIXER = """
from bakeoff.models import Mixer

class Mine(Mixer):
    supports_causal = True
    def forward(self, x{signature}):
        return {returned}
"""
MIXERS = {
    "line-18 a wrong signature": ("", "x", "TypeError"),
    "line-18 a wrong shape": (
        ", *more",
        "x.mean(dim=1)",
        "must return the shape of its input, (1, 8, 16)",
    ),
    "line-18 no tensor": (", *more", "[x]", "not list"),
}


@pytest.mark.parametrize("case", MIXERS)
def test_a_mixer_that_breaks_the_contract(
    case: str, write_ablation: WriteAblation, tmp_path: Path, place: Place, called: Called
) -> None:
    signature, returned, fragment = MIXERS[case]
    module = f"own_{list(MIXERS).index(case)}"  # a new name for each, since modules are cached
    (tmp_path / f"{module}.py").write_text(MIXER.format(signature=signature, returned=returned))
    path = write_ablation(baseline=f'Model(mixer="{module}:Mine")', axes='[vary("depth", [1, 2])]')
    ended = called("run", str(path))
    expect_refused(ended, 2, [str(path), "the baseline is impossible", fragment], place)


PUBLISHED = {
    "line-22 a missing column": (
        lambda text: text.replace("system,condition,metric", "system,metric"),
        "fnet.csv, line 1: lacks the column 'condition'",
    ),
    "line-22 a row that is too short": (
        lambda text: text + "FNet,x\n",
        "2 columns where there must be 12",
    ),
    "line-22 a value that is none": (
        lambda text: text.replace("1.80", "fast"),
        "value='fast' must be a number, or empty",
    ),
    "an empty file": (lambda text: "", "lacks the column 'system'"),
    "not text at all": (lambda text: '\0\r\0"', "fnet.csv"),
}


@pytest.mark.parametrize("case", PUBLISHED)
def test_a_broken_file_of_published_figures(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Place, called: Called
) -> None:
    damage, fragment = PUBLISHED[case]
    intact = (published_files.FOLDER / "fnet.csv").read_text()
    (tmp_path / "fnet.csv").write_text(damage(intact), newline="")
    monkeypatch.setattr(published_files, "FOLDER", tmp_path)
    published_files.rows_of.cache_clear()
    try:
        expect_refused(called("run", "heads"), 2, [fragment])
    finally:
        published_files.rows_of.cache_clear()
    assert place.made() == []
