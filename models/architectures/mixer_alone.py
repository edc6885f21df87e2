"""A stack of bare mixers, for measurements of a mixer without the rest of a model.

Vectors `[batch, time, dim]` in, the same shape out, through `depth` layers of the mixer with no
norm, no residual and no feed-forward between; only positions that act inside the mixer apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, cast

from torch import Tensor, nn

from bakeoff.models.architecture import Architecture
from bakeoff.models.errors import ModelError
from bakeoff.models.initialisation import PartSeeds
from bakeoff.models.interface import InputKind
from bakeoff.models.mixer import Mixer
from bakeoff.models.stack import build_mixers


class MixerAlone(Architecture):
    """A stack of bidirectional mixers, as in Table 1 of Vaswani et al. 2017."""

    name = "mixer_alone"
    is_causal = False
    takes = ("mixer", "position", "dim", "depth")
    reads: ClassVar[Mapping[str, tuple[InputKind, ...]]] = {"inputs": ("vectors",)}

    def build(self, seeds: PartSeeds) -> None:
        """Build the mixers, each from the random stream that it has in a whole model."""
        if self.spec.input_size != self.spec.dim:
            raise ModelError(
                f"{self.name} takes vectors of the width dim={self.spec.dim}, "
                f"not input_size={self.spec.input_size}"
            )
        self.layers = nn.ModuleList(build_mixers(self.spec, seeds, is_causal=self.is_causal))

    @property
    def mixers(self) -> list[Mixer]:
        """The mixers, from the bottom upwards."""
        return [cast("Mixer", layer) for layer in self.layers]

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map `[batch, time, dim]` to the same shape."""
        for mixer in self.mixers:
            inputs = mixer(inputs, mask)
        return inputs

    def flops(self, length: int, batch: int = 1) -> float:
        """Return the FLOPs of the mixers."""
        return sum(mixer.flops(length, batch) for mixer in self.mixers)


class CausalMixerAlone(MixerAlone):
    """A stack of causal mixers, which can decode token by token."""

    name = "causal_mixer_alone"
    is_causal = True
