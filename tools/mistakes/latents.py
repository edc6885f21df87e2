"""Plausible bugs in what reads through a few latents or slots, that the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_PERCEIVER = "architectures/perceiver.py"
_OF_PERCEIVER = "architectures/test_perceiver.py"
_WORKSPACE = "architectures/shared_workspace.py"
_OF_WORKSPACE = "architectures/test_shared_workspace.py"

MUTANTS_OF_LATENTS: tuple[Mutant, ...] = (
    Mutant(
        "the first cross-attend shares its parameters with the others",
        _PERCEIVER,
        "self.stages[min(cross_attend, len(self.stages) - 1)]",
        "self.stages[len(self.stages) - 1]",
        "papers_loop",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "frequencies are in radians",
        _PERCEIVER,
        "angles = math.pi * p.flatten()",
        "angles = p.flatten()",
        "written_out",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "frequencies are logarithmic",
        _PERCEIVER,
        "torch.linspace(1, size / 2, bands, dtype=torch.float64)",
        "torch.logspace(0, math.log10(size / 2), bands, dtype=torch.float64)",
        "written_out",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "rows and columns are swapped",
        _PERCEIVER,
        'torch.meshgrid(*ticks, indexing="ij")',
        'torch.meshgrid(*ticks, indexing="xy")',
        "written_out",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "coordinates run over 0..1",
        _PERCEIVER,
        "torch.linspace(-1, 1, size, dtype=torch.float64)",
        "torch.linspace(0, 1, size, dtype=torch.float64)",
        "written_out",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "the FLOPs of patches are those of pixels",
        _PERCEIVER,
        "        length //= self.config.patch**2\n",
        "",
        "flops_of_an_image",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "scores are scaled by the latents' width, not the keys'",
        _PERCEIVER,
        "scale=keys.shape[-1] ** -0.5",
        "scale=self.dim**-0.5",
        "papers_loop",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "latents see padding",
        _PERCEIVER,
        "visible = whole_sequence(latents, None, keys, real, is_causal=False)",
        "visible = whole_sequence(latents, None, keys, None, is_causal=False)",
        "papers_loop",
        battery=_OF_PERCEIVER,
    ),
    Mutant(
        "the chosen weights are normalised again",
        _WORKSPACE,
        "    return torch.zeros_like(weights).scatter(-1, top.indices, top.values)\n",
        "    shares = top.values / top.values.sum(dim=-1, keepdim=True)\n"
        "    return torch.zeros_like(weights).scatter(-1, top.indices, shares)\n",
        "only_tokens",
        battery=_OF_WORKSPACE,
    ),
    Mutant(
        "each layer starts from an empty memory",
        _WORKSPACE,
        "x, memory = self.block_of(layer).through(x, mask, memory)",
        "x, _ = self.block_of(layer).through(x, mask, memory)",
        "is_the_loop",
        battery=_OF_WORKSPACE,
    ),
    Mutant(
        "the gate of what was there starts half closed",
        _WORKSPACE,
        "torch.tensor([0.0, 1.0])",
        "torch.tensor([0.0, 0.0])",
        "gates_start",
        battery=_OF_WORKSPACE,
    ),
    Mutant(
        "padding is in the mean that opens the gates",
        _WORKSPACE,
        "mean_of_real((self.gate_factor * x).relu(), mask)",
        "mean_of_real((self.gate_factor * x).relu(), None)",
        "is_the_loop",
        battery=_OF_WORKSPACE,
    ),
    Mutant(
        "reading is scaled",
        _WORKSPACE,
        "visible, scale=1.0)",
        "visible, scale=0.5)",
        "is_the_loop",
        battery=_OF_WORKSPACE,
    ),
)
