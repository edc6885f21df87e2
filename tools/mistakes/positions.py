"""Bugs of absolute positions: how they start, and how they go from one grid to another."""

from __future__ import annotations

from mistakes import Mutant

_ABSOLUTE = "positions/absolute.py"
_OF_ABSOLUTE = "positions/test_absolute.py"

MUTANTS_OF_POSITIONS: tuple[Mutant, ...] = (
    Mutant(
        "the class token's position is interpolated with those of the grid",
        _ABSOLUTE,
        "return torch.cat([before, moved.flatten(0, 1)])",
        'return interpolated(table.unsqueeze(0), (1, self.max_length), "bicubic").squeeze(0)',
        "bicubically",
        battery=_OF_ABSOLUTE,
    ),
    Mutant(
        "the class token's position stays as drawn",
        _ABSOLUTE,
        "before, on_grid = table[:num_before]",
        "before, on_grid = self.table[:num_before]",
        "bicubically",
        battery=_OF_ABSOLUTE,
    ),
    Mutant(
        "the old grid has as many rows as it should have columns",
        _ABSOLUTE,
        "grid_in_ratio(len(on_grid), self.grid)",
        "grid_in_ratio(len(on_grid), self.grid[::-1])",
        "bicubically",
        battery=_OF_ABSOLUTE,
    ),
    Mutant(
        "positions are interpolated by the cubic that keeps no line straight",
        _ABSOLUTE,
        "mode=mode, antialias=True",
        "mode=mode, antialias=grid[0] < table.shape[0]",
        "linear_table_stays_linear",
        battery=_OF_ABSOLUTE,
    ),
    Mutant(
        "a rule for linear maps draws positions again",
        "initialisation.py",
        "_TABLES = (nn.Embedding, Position, RelativePosition)",
        "_TABLES = (nn.Embedding, RelativePosition)",
        "as_small_as_asked",
        battery="test_stack.py",
    ),
    Mutant(
        "positions of another grid are taken over as a teacher's, too",
        "training/weights.py",
        "_, left = _take(model, _kept(checkpoints, trial_id))",
        "found = _kept(checkpoints, trial_id)\n"
        "    _, left = _take(model, {**found, **_on_its_grid(model, found)})",
        "another_grid",
        battery="training/test_weights.py",
        room="suite",
    ),
)
