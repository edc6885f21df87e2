"""A tuned learning rate: whose it is, and how a table that is none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.commands.plan import show
from suite.planning.learning_rates import COLUMNS, rates_in_words, read_rates, tuned_rate
from suite.planning.plan import plan
from suite.spec import Model, SpecError, vary
from tests.suite.probes.no_formula import Silent
from tests.suite.small_ablation import WriteAblation, make_ablation

HEADER = ",".join(COLUMNS)
ROWS = (
    "quick,listops,,*,0.003",
    "quick,listops,,lstm,0.01",
    "quick,fashion_mnist_patches,,*,0.001",
    "standard,listops,,*,0.0003",
)
RATES = read_rates("\n".join((HEADER, *ROWS)))


def test_each_mixer_has_its_own_rate_on_each_task_at_each_scale() -> None:
    assert tuned_rate("quick", "listops", "lstm", RATES) == 0.01
    assert tuned_rate("standard", "listops", "lstm", RATES) == 0.0003


def test_the_same_mixer_in_another_architecture_has_a_rate_of_its_own() -> None:
    rows = (*ROWS, "quick,listops,tagger,lstm,0.02", "quick,listops,tagger,,0.05")
    rates = read_rates("\n".join((HEADER, *rows)))

    def rate(architecture: str, mixer: str = "lstm") -> float:
        return tuned_rate("quick", "listops", mixer, rates, architecture=architecture)

    assert (rate("classifier"), rate("tagger"), rate("tagger", mixer="")) == (0.01, 0.02, 0.05)
    assert rate("mine:MyNet", mixer="") == 0.003  # as of any


def test_a_mixer_that_was_not_tried_gets_the_rate_of_any() -> None:
    assert tuned_rate("quick", "listops", "attention", RATES) == 0.003
    assert tuned_rate("quick", "listops", "mine:MyMixer", RATES) == 0.003


def test_a_task_too_dear_to_try_takes_the_rates_of_its_like() -> None:
    assert tuned_rate("quick", "fashion_mnist_pixels", "lstm", RATES) == 0.001
    own = read_rates("\n".join((HEADER, *ROWS, "quick,fashion_mnist_pixels,,*,0.02")))
    assert tuned_rate("quick", "fashion_mnist_pixels", "lstm", own) == 0.02


@pytest.mark.parametrize(
    ("scale", "task", "said"),
    [
        ("paper", "listops", r"no rates at scale 'paper'; give a number instead\.$"),
        ("quick", "listop", r"at scale 'quick': no task 'listop'; did you mean 'listops'\?"),
        ("standard", "fashion_mnist_pixels", r"Allowed: listops\. Or give a number instead\.$"),
    ],
)
def test_what_was_not_tried_is_refused_in_a_sentence(scale: str, task: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        tuned_rate(scale, task, "lstm", RATES)
    assert "ablations/learning_rates.csv" in str(caught.value)


BROKEN = {
    "empty": ("", "the first line must be scale,task,architecture,mixer,learning_rate"),
    "other columns": ("scale,task,rate\n", "the first line must be"),
    "too few columns": (f"{HEADER}\nquick,listops,*\n", "line 2 has 3 columns"),
    "scale": (f"{HEADER}\nquik,listops,,*,0.1\n", "line 2: no scale 'quik'; did you mean 'quick'?"),
    "task": (f"{HEADER}\nquick,listop,,*,0.1\n", "line 2: no task 'listop'; did you mean"),
    "mixer": (f"{HEADER}\nquick,listops,,lstmm,0.1\n", "line 2: no mixer 'lstmm'; did you mean"),
    "architecture": (
        f"{HEADER}\nquick,listops,tager,lstm,0.1\n",
        "no architecture 'tager'",
    ),
    "no number": (f"{HEADER}\nquick,listops,,*,fast\n", "learning_rate='fast' must be a number"),
    "not a number": (f"{HEADER}\nquick,listops,,*,nan\n", "learning_rate='nan' must be a number"),
    "negative": (f"{HEADER}\nquick,listops,,*,-1\n", "learning_rate='-1' must be a number"),
    "twice": (
        f"{HEADER}\nquick,listops,,*,1\nquick,listops,,*,2\n",
        "line 3: quick,listops,,* has",
    ),
    "no any": (f"{HEADER}\nquick,listops,,lstm,1\n", "task=listops needs a row with mixer=*"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_malformed_table_is_refused_in_a_sentence(kind: str) -> None:
    text, said = BROKEN[kind]
    with pytest.raises(SpecError) as caught:
        read_rates(text)
    assert str(caught.value).startswith("ablations/learning_rates.csv")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_rate_is_part_of_the_trial_as_if_it_had_been_given() -> None:
    rate = tuned_rate("quick", "shakespeare_characters", "attention")
    tuned = plan(make_ablation(scale={"learning_rate": "tuned"}), seeds=1)
    given = plan(make_ablation(scale={"learning_rate": rate}), seeds=1)
    other = plan(make_ablation(scale={"learning_rate": rate / 2}), seeds=1)
    assert [t.trial_id for t in tuned.trials] == [t.trial_id for t in given.trials]
    assert not {t.trial_id for t in tuned.trials} & {t.trial_id for t in other.trials}


def test_a_plan_says_which_rate_each_mixer_gets(
    write_ablation: WriteAblation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_ablation(
        axes='[vary("mixer", ["attention", "conv"])]', baseline='Model(mixer="attention")',
        scales='{"quick": Scale(dim=16, depth=1, length=8, steps=4, batch=2, '
        'learning_rate="tuned")}',
    )  # fmt: skip
    show([str(file)], scale="quick", seeds=1, out=tmp_path / "out", as_json=False)
    rates = {m: tuned_rate("quick", "shakespeare_characters", m) for m in ("attention", "conv")}
    said = ", ".join(f"{mixer} {rate:g}" for mixer, rate in rates.items())
    assert f"{said} on shakespeare_characters\n" in capsys.readouterr().out


def test_a_plan_marks_the_rate_of_a_mixer_that_was_not_tuned() -> None:
    own = f"{Silent.__module__}:{Silent.__name__}"
    about = plan(
        make_ablation(
            baseline=Model(mixer="attention"), axes=[vary("mixer", ["attention", own])],
            tasks=["listops"], scale={"length": 16, "learning_rate": "tuned"},
        )
    ).about  # fmt: skip
    tuned, other = (tuned_rate("quick", "listops", mixer) for mixer in ("attention", own))
    assert about.settings["learning_rate"] == (
        f"tuned: attention {tuned:g}, {own} {other:g} (fallback, not tuned) on listops"
    )


def test_rates_in_words_name_each_once() -> None:
    own = f"{Silent.__module__}:{Silent.__name__}"
    planned = plan(
        make_ablation(
            axes=[vary("mixer", ["attention", own])],
            tasks=["listops", "movie_reviews"],
            scale={"length": 16},
        )
    )
    expected = f"attention 0.001, {own} 0.001"
    assert (
        rates_in_words(planned.trials, "paper")
        == f"{expected} on listops; {expected} on movie_reviews"
    )
