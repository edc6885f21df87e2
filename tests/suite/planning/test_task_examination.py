"""Tests that a broken task of the user's own is refused by one sentence, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import bakeoff
from bakeoff import Ablation, Model, Scale, vary
from bakeoff.suite.schema import Plan
from bakeoff.suite.spec import SpecError

GOOD = '''"""Tasks of the user's own."""
import random
from pathlib import Path
import numpy as np
import torch
from bakeoff.suite.tasks.data_order import RandomStream, held_out_stream
from bakeoff.suite.tasks.metrics import Accuracy
from bakeoff.suite.tasks.task import Batch, Task


class Largest(Task):
    """The largest of some digits."""

    asks_for = "class"
    input_size = 10
    output_size = 10

    def draw(self, stream, count):
        digits = stream.integers(count * self.length, low=0, high=10).reshape(count, -1)
        return Batch(inputs={{"inputs": torch.from_numpy(digits)}},
                     targets=torch.from_numpy(digits.max(axis=1)))

    def training_batch(self, step, batch, seed):
        return self.draw(RandomStream(seed, step), batch)

    def held_out(self, split, batch):
        examples = self.draw(held_out_stream(split), 100)
        yield from (examples.rows(slice(n, n + batch)) for n in range(0, 100, batch))


class Mine(Largest):
{body}
'''
DRAW = "return self.draw(RandomStream(seed, step), batch)"
BROKEN = {
    "input_size = 5": "holds the token 9; input_size allows 0 to 4",
    "output_size = 3": "the target 9 is not in 0 to 2 (output_size)",
    "is_padded = True": "is_padded is True, so that each batch needs the input 'mask'",
    "def training_batch(self, step, batch, seed): return 1": (
        "training_batch gives int; it must give a Batch(inputs=..., targets=...)"
    ),
    "def training_batch(self, step, batch, seed):\n"
    "        return self.draw(RandomStream(random.randrange(99), step), batch)": (
        "gives other examples the second time; it must be a function of its arguments alone"
    ),
    "def training_batch(self, step, batch, seed):\n"
    "        self.n = getattr(self, 'n', 0) + 1\n"
    "        return self.draw(RandomStream(seed, step + self.n), batch)": (
        "gives other examples the second time"
    ),
    "def held_out(self, split, batch):\n        yield from super().held_out('test', batch)": (
        "100% of the first test examples are validation examples too"
    ),
    "def held_out(self, split, batch):\n"
    "        examples = self.draw(RandomStream(0, 3) if split == 'test' else "
    "held_out_stream(split), 8)\n"
    "        yield from (examples.rows(slice(n, n + batch)) for n in range(0, 8, batch))": (
        "100% of the first test examples are among the first training examples too"
    ),
    "def held_out(self, split, batch): yield self.draw(held_out_stream(split), batch)": (
        "yields other examples if batch is 5 in place of 8 (5 and 8)"
    ),
    "def training_batch(self, step, batch, seed):\n"
    "        return self.draw(RandomStream(seed, step), 3)": "gives 3 rows for batch=8",
    "def held_out(self, split, batch): yield from ()": "held_out('validation') yields no batch",
    "def loss(self, outputs, batch, label_smoothing=0.0): return outputs.logits.sum() / 0": (
        "its loss of equal logits is nan"
    ),
    "def loss(self, outputs, batch, label_smoothing=0.0): return torch.zeros(())": (
        "its loss has no gradient with respect to the logits"
    ),
    "def loss(self, outputs, batch, label_smoothing=0.0): return outputs.logits": (
        "loss must return a scalar tensor"
    ),
    "def training_batch(self, step, batch, seed):\n"
    "        Path(__file__).with_name('digits.csv').read_text()\n"
    f"        {DRAW}": "which it does not declare; write files = ('digits.csv',) in the class",
    "def training_batch(self, step, batch, seed): return 1 / 0": "division by zero",
    "asks_for = 'colour'": "no answer 'colour'",
}


def planned(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Plan:
    (folder / "my_tasks.py").write_text(GOOD.format(body=f"    {body}"))
    (folder / "digits.csv").write_text("1,2\n")
    monkeypatch.syspath_prepend(folder)
    ablation = Ablation(
        question="Does it matter?",
        baseline=Model(mixer="fnet"),
        axes=[vary("mixer", ["fnet", "gru"])],
        tasks=["my_tasks:Mine"],
        probes=["quality"],
        scales={"quick": Scale(dim=8, depth=1, length=6, steps=1, batch=4)},
    )
    return bakeoff.plan(ablation)


@pytest.mark.parametrize("body", BROKEN)
def test_a_broken_task_is_refused(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SpecError) as refused:
        planned(tmp_path, body, monkeypatch)
    sentence = str(refused.value)
    assert BROKEN[body] in sentence
    assert "\n" not in sentence


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "files = ('digits.csv',)\n"
        "    def training_batch(self, step, batch, seed):\n"
        "        Path(__file__).with_name('digits.csv').read_text()\n"
        f"        {DRAW}",
    ],
)
def test_a_sound_task_is_planned(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = planned(tmp_path, body, monkeypatch)
    assert {trial.task for trial in plan.trials} == {"my_tasks:Mine"}
    assert {cell.task for cell in plan.cells} == {"my_tasks:Mine"}
