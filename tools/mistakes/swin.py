"""Bugs of Swin transformers and of attention within windows."""

from __future__ import annotations

from mistakes import Mutant

_WINDOWS = "vision/windows.py"
_WINDOW_ATTENTION = "mixers/attentions/window_attention.py"
_OF_WINDOWS = "mixers/attentions/test_window_attention.py"
_SWIN_FILE = "architectures/swin.py"
_OF_SWIN = "architectures/test_swin.py"

MUTANTS_OF_SWIN: tuple[Mutant, ...] = (
    Mutant(
        "what the roll brings together sees one another",
        _WINDOWS,
        "regions = 1 + 2 * (rows[:, None] < self.shifts[0]) + (columns < self.shifts[1])",
        "regions = 1 + 0 * (rows[:, None] < self.shifts[0]) + 0 * columns",
        "loop and 8-8-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "a grid is padded after the roll",
        _WINDOWS,
        """        image = functional.pad(image, (0, 0, 0, missing[1], 0, missing[0]))
        if any(self.shifts):
            image = image.roll((-self.shifts[0], -self.shifts[1]), dims=(1, 2))
""",
        """        if any(self.shifts):
            image = image.roll((-self.shifts[0], -self.shifts[1]), dims=(1, 2))
        image = functional.pad(image, (0, 0, 0, missing[1], 0, missing[0]))
""",
        "loop and 9-7-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "what fills up the windows is seen",
        _WINDOWS,
        "seen = (regions == keys) & (keys > 0)",
        "seen = (regions == keys) | (keys == 0)",
        "loop and 9-7-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "the roll is not undone",
        _WINDOWS,
        "image = image.roll(self.shifts, dims=(1, 2))",
        "image = image.roll((0, 0), dims=(1, 2))",
        "loop and 8-8-4",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "the step is from the query to the key",
        _WINDOWS,
        "return steps[down, across].permute(2, 0, 1).unsqueeze(0)",
        "return steps[down, across].permute(2, 1, 0).unsqueeze(0)",
        "stands_where",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "rows and columns of the table change places",
        _WINDOWS,
        "return steps[down, across].permute(2, 0, 1).unsqueeze(0)",
        "return steps.transpose(0, 1)[across, down].transpose(0, 1).permute(2, 0, 1).unsqueeze(0)",
        "stands_where",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "a window is not shrunk to a small map",
        _WINDOW_ATTENTION,
        "rows, columns = ((min(n, side), shift if n > side else 0) for n in grid)",
        "rows, columns = ((side, shift) for n in grid)",
        "one_window_without_shift",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "a map of one window is shifted",
        _WINDOW_ATTENTION,
        "shift if n > side else 0",
        "shift if n >= side else 0",
        "one_window_without_shift",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "all layers but the first are shifted",
        _WINDOW_ATTENTION,
        'self.config.shift == "alternate" and layer % 2 == 1',
        'self.config.shift == "alternate" and layer > 0',
        "every_other_layer",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "the factor of cosines has no limit",
        _WINDOW_ATTENTION,
        "self.log_factor.clamp(max=_MOST).exp()",
        "self.log_factor.exp()",
        "hundred",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "steps are not on a logarithmic scale",
        _WINDOWS,
        "places.sign() * (1 + places.abs()).log2() / 3",
        "places / 8",
        "network_says",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "an initialisation draws the relative bias again",
        _WINDOWS,
        'keeps_own_draw = no_weight_decay = ("expand", "contract")',
        'no_weight_decay = ("expand", "contract")',
        "draws_the_bias",
        battery=_OF_WINDOWS,
    ),
    Mutant(
        "neighbours are merged row by row",
        _SWIN_FILE,
        "for across in (0, 1) for down in (0, 1)",
        "for down in (0, 1) for across in (0, 1)",
        "merging",
        battery=_OF_SWIN,
    ),
    Mutant(
        "an odd map loses its last row",
        _SWIN_FILE,
        "image = functional.pad(image, (0, 0, 0, columns % 2, 0, rows % 2))",
        "image = image[:, : rows // 2 * 2, : columns // 2 * 2]",
        "merging",
        battery=_OF_SWIN,
    ),
    Mutant(
        "gains of the second version start at one",
        _SWIN_FILE,
        "nn.init.zeros_(cast",
        "nn.init.ones_(cast",
        "starts_as_the_identity",
        battery=_OF_SWIN,
    ),
    Mutant(
        "each stage counts its own blocks for stochastic depth",
        _SWIN_FILE,
        "share=next(shares)",
        "share=(layer + 1) / self.spec.depth",
        "left_out",
        battery=_OF_SWIN,
    ),
    Mutant(
        "the table is as large as the window where the map is smaller",
        _SWIN_FILE,
        "window = min(config.window, max(spec.grid or ()))",
        "window = config.window",
        "small_tasks",
        battery=_OF_SWIN,
    ),
)
