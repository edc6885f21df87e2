"""The battery notices wrong mixers, old and new: bugs seeded into copies of the models."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]

POOLING = '''"""The mean of the newest tokens."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from models.errors import ModelError
from models.mixer import Cost, Mixer, without_padding


class Pooling(Mixer):
    """A mean over a window; padding counts as zeros."""

    name = "pooling"
    paper = "none"
    family = "pooling"
    cost = Cost(time="n * d", sequential_operations="1", maximum_path_length="n / k")
    supports_causal = True
    is_position_aware = True
    mask_mode = "exact"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Knobs.

        Attributes:
            window: Tokens in the mean.
        """

        window: int = 3

    @classmethod
    def check_config(cls, config, *, dim):
        if config.window < 2:
            raise ModelError(f"pooling: window={config.window} is below 2")

    def forward(self, x, mask=None, context=None, context_mask=None):
        self.check_inputs(x, mask, context, context_mask)
        x = functional.pad(without_padding(x, mask), (0, 0, self.config.window - 1, 0))
        return x.unfold(1, self.config.window, 1).mean(dim=-1)

    def flops(self, length, batch=1):
        return 0.0

    def reference(self, x, mask=None, context=None, context_mask=None):
        out = 0 * x if mask is None else 0 * x.masked_fill(~mask.unsqueeze(-1), 0)
        for b in range(x.shape[0]):
            for t in range(x.shape[1]):
                for s in range(max(0, t - self.config.window + 1), t + 1):
                    if mask is None or mask[b, s]:
                        out[b, t] = out[b, t] + x[b, s] / self.config.window
        return out
'''


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    yield importlib.import_module("mutants")
    for name in [n for n in sys.modules if n.partition(".")[0] in ("mutants", "mistakes")]:
        sys.modules.pop(name, None)


def test_every_mutant_can_be_made_and_is_a_mistake_of_its_own(mutants: ModuleType) -> None:
    table = mutants.MUTANTS
    assert len(table) >= 20
    assert len({each.mistake for each in table}) == len(table)
    assert len({(each.file, each.old, each.new) for each in table}) == len(table)
    for each in table:
        path = ROOT / each.room / each.file
        text = mutants.mutated(path.read_text(), each)
        compile(text, each.file, "exec")


@pytest.mark.slow
def test_every_mutant_is_caught(mutants: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    assert mutants.main([]) == 0, capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("self.config.window - 2, 1))", "self.config.window - 1, 0))"),  # sees the next token
        (".sum(dim=-1)", ".mean(dim=-1)"),
        ("functional.pad(x, ", "functional.pad(without_padding(x, mask), "),
        ("", ""),  # the right one
    ],
)
def test_a_newcomers_mixer_is_tested_by_its_line_alone(
    mutants: ModuleType, wrong: str, right: str
) -> None:
    def add(models: Path) -> None:
        (models / "mixers" / "pooling.py").write_text(POOLING.replace(right, wrong))
        registry = models / "registry.py"
        line = 'MIXERS: dict[str, str] = {\n    "pooling": "models.mixers.pooling:Pooling",'
        registry.write_text(registry.read_text().replace("MIXERS: dict[str, str] = {", line))

    run = mutants.battery_of_copy(add, "pooling")
    assert bool(mutants.failed_test(run)) == (wrong != right), run.stdout
