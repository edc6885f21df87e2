"""Check that the tests detect wrong mixers: bugs are seeded into copies of the models."""

from pathlib import Path

import pytest

from tools import mutants

POOLING = '''"""The mean of the newest tokens."""

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from bakeoff.models.errors import ModelError
from bakeoff.models.mixer import Cost, Mixer, without_padding


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


def test_every_mutant_can_be_made_and_is_a_mistake_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert mutants.main(["--check"]) == 0, capsys.readouterr().out
    assert len(mutants.mistakes()) >= 20


def test_a_mutant_that_cannot_be_made_is_named() -> None:
    file, tests = "models/registry.py", "tests/models/test_mutants.py"
    twice = mutants.Mistake("a", file, "models.", "no", "x", tests)
    gone = mutants.Mistake("a", "models/gone.py", "no", "no", "x", "tests/models/gone.py")
    assert [line.split(": ")[0] for line in mutants.problems([twice, gone])] == [
        file,
        "models/gone.py",
        "tests/models/gone.py",
        "models/gone.py",
    ]


@pytest.mark.slow
def test_every_mutant_is_caught(capfd: pytest.CaptureFixture[str]) -> None:
    assert mutants.main([]) == 0, capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("self.config.window - 2, 1))", "self.config.window - 1, 0))"),  # depends on the next token
        (".sum(dim=-1)", ".mean(dim=-1)"),
        ("functional.pad(x, ", "functional.pad(without_padding(x, mask), "),
        ("", ""),  # the right one
    ],
)
def test_a_newcomers_mixer_is_tested_by_its_line_alone(wrong: str, right: str) -> None:
    def add(copy: Path) -> None:
        models = copy / "models"
        (models / "mixers" / "pooling.py").write_text(POOLING.replace(right, wrong))
        registry = models / "registry.py"
        line = 'MIXERS: dict[str, str] = {\n    "pooling": "bakeoff.models.mixers.pooling:Pooling",'
        registry.write_text(registry.read_text().replace("MIXERS: dict[str, str] = {", line))

    run = mutants.run_on_copy(add, "pooling")
    assert bool(mutants.failed_test(run)) == (wrong != right), run.stdout
