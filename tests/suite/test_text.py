"""Tests for durations, prices and other values as text, and for parsing them."""

import shutil
import sys
from pathlib import Path

import pytest

from bakeoff.suite.schema import Price
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import (
    command,
    energy_in_words,
    flops_in_words,
    in_money,
    in_words,
    number_of,
    price_in,
    seconds_in,
    some_of,
)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "unknown time"),
        (0.2, "0 s"),
        (59.6, "1 min 0 s"),
        (260, "4 min 20 s"),
        (3600, "1 h 0 min"),
        (48 * 3600, "2.0 days"),
    ],
)
def test_in_words(seconds: float | None, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("90", 90.0), ("0.5", 0.5), ("90s", 90.0), ("30m", 1800.0), ("1.5 h", 5400.0), (" 2h ", 7200)],
)
def test_what_a_person_says(said: str, seconds: float) -> None:
    assert seconds_in(said, "--time-limit") == seconds


@pytest.mark.parametrize(
    "said", ["", "0", "0.0h", "-5", "soon", "1e3", "nan", "inf", "5d", "1:30", "m", "9" * 10, "٣"]
)
def test_what_is_no_time_is_refused(said: str) -> None:
    with pytest.raises(SpecError) as refused:
        seconds_in(said, "--time-limit")
    assert str(refused.value) == (
        f"--time-limit {said!r}: give seconds above 0, or minutes or hours as 30m, 2h."
    )


def test_a_list_of_names_stays_short() -> None:
    assert some_of(["a", "b", "c"], 3) == "a; b; c"
    assert some_of([f"v{k}" for k in range(2_000)], 2, ", ") == "v0, v1, and 1,998 more"


@pytest.mark.parametrize(
    ("said", "price"),
    [
        ("2.50 USD", Price(amount=2.5, currency="USD")),
        (" 3€ ", Price(amount=3.0, currency="€")),
        ("0.04", Price(amount=0.04)),
    ],
)
def test_a_price_is_a_number_and_a_currency_of_the_users(said: str, price: Price) -> None:
    assert price_in(said) == price


@pytest.mark.parametrize("said", ["", "free", "0", "-1", "nan", "1e3", "2.50 USD an hour", "$2"])
def test_no_price_is_refused_in_one_sentence(said: str) -> None:
    with pytest.raises(SpecError, match=r"^--price .*: give the price of an hour above 0, .*\.$"):
        price_in(said)


def test_energy_and_money_in_words() -> None:
    joules = (7.5, 45_200.0, 3.6e5, 1.2e7)
    assert [*map(energy_in_words, joules)] == ["7.5 J", "45.2 kJ", "0.1 kWh", "3.33 kWh"]
    sums = [in_money(amount, "USD") for amount in (0.0, 0.001, 1234.5)]
    assert sums == ["0.00 USD", "less than 0.01 USD", "1,234.50 USD"]
    assert in_money(2.0, "") == "2.00"


def test_flops_in_words() -> None:
    counts = (0.0, 999.0, 1_000.0, 2.2091e12, 8.675e17, 1e30)
    texts = ["0 FLOP", "999 FLOP", "1 kFLOP", "2.209 TFLOP", "867.5 PFLOP", "1e+09 ZFLOP"]
    assert [*map(flops_in_words, counts)] == texts


def typed(monkeypatch: pytest.MonkeyPatch, program: str, *words: str) -> None:
    monkeypatch.setattr(sys, "argv", [program, *words])


def test_a_command_in_a_message_repeats_the_users_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/bakeoff")
    typed(monkeypatch, "/usr/bin/bakeoff", "report", "my files/exp.py", "--out", "my out")
    assert command("run", "exp") == "bakeoff run 'my files/exp.py' --out 'my out'"
    assert command("logs", "TRIAL", out=Path("out")) == "bakeoff logs TRIAL"
    typed(monkeypatch, "/usr/bin/bakeoff", "verify", "--tracking-uri=http://a:b@host", "--out=x")
    wanted = "bakeoff verify --repair --out x --tracking-uri 'http://***@host'"
    assert command("verify", "--repair") == wanted
    typed(monkeypatch, "script.py", "--out", "x")
    assert command("verify", "--repair") == "bakeoff verify --repair"


def test_a_program_that_the_path_does_not_find_is_named_by_the_shorter_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.chdir(tmp_path)
    typed(monkeypatch, str(tmp_path / ".venv/bin/bakeoff"), "run", "heads")
    assert command("ui", "heads") == ".venv/bin/bakeoff ui heads"
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b" / "c" / "d")
    typed(monkeypatch, "/v/bin/bakeoff", "run", "heads")
    assert command("ui", "heads") == "/v/bin/bakeoff ui heads"


@pytest.mark.parametrize(
    ("number", "words"), [(0, "0 trials"), (1, "1 trial"), (1200, "1,200 trials")]
)
def test_a_number_with_its_noun(number: int, words: str) -> None:
    assert number_of(number, "trial") == words
