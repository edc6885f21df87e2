"""Reconstruct a picture that is compressed to a few tokens.

This is the first of two training stages; in the second a model draws such pictures, see
`bakeoff.suite.tasks.emoji.emoji_tokens`.

    picture   as in `bakeoff.suite.tasks.emoji.emoji_scenes`, with the same pairs of objects held
              out, but the positions of objects are multiples of 8 pixels, so that a token of 8 x 8
              pixels covers a quarter of an object or white. With so few positions scenes recur: of
              the held-out ones without a new pair 2.8 % are among 48,000 training scenes
    target    the same picture
    loss      the mean squared error of pixels that are scaled to a variance of about 1
    score     that error; also whether the scene that is read from the reconstruction is the same
              (`bakeoff.suite.tasks.emoji.reading`), and the number of codes in use
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import mse_loss

from bakeoff.models.interface import INPUTS, Outputs
from bakeoff.suite.tasks.bases.generated import GeneratedTask, definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.emoji.atlas import SOURCE
from bakeoff.suite.tasks.emoji.emoji_scenes import KNOWN, EmojiScenes, draw_scenes
from bakeoff.suite.tasks.emoji.picture_metrics import CodebookPerplexity, PixelError
from bakeoff.suite.tasks.emoji.reading import APART, PicturesRight
from bakeoff.suite.tasks.task import Batch, Split

VERSION = 1


class CoarseScenes(GeneratedTask):
    """Base class of both tasks on these pictures: the scale of the pixels, and the parts."""

    pixel_mean = EmojiScenes.pixel_mean
    pixel_standard_deviation = EmojiScenes.pixel_standard_deviation
    part_titles = EmojiScenes.part_titles

    def held_out_kinds(self, split: Split) -> Sequence[int]:
        """Return the kinds: scenes of known pairs, then those with a pair of the split."""
        return EmojiScenes(EmojiScenes.fixed_length or 0).held_out_kinds(split)

    def parts(self) -> tuple[str, ...]:
        """Return the parts: scenes of known pairs, and those with a new one."""
        return ("pairs=1", "pairs=2")

    def in_parts(self, batch: Batch) -> dict[str, Tensor]:
        """Return the parts that the batch records, the same for all pixels of a picture."""
        assert batch.part is not None, "see `draw`"
        is_new = (batch.part == 1)[:, None, None, None].expand(batch.targets.shape)
        return {"pairs=1": ~is_new, "pairs=2": is_new}


class EmojiPictures(CoarseScenes):
    """Reconstruction of a picture through a few tokens."""

    name = "emoji_pictures"
    version = VERSION
    architecture = "discrete_vae"
    asks_for = "image"
    metric = PixelError()
    also_scored = (PicturesRight(), CodebookPerplexity())
    floors = ("mean_picture",)
    input_kind = "image"
    input_size = output_size = 3
    grid = EmojiScenes.picture
    fixed_length = grid[0] * grid[1]
    token_name = "pixels"
    source = definition_source(
        name="emoji_pictures",
        title="Scenes of emoji at coarse places",
        origin="this project, of emoji by OpenMoji, CC BY-SA 4.0",
        definition={"scenes": EmojiScenes.source.sha256, "apart": APART},
        version=VERSION,
        beside=(SOURCE,),
    )

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw pictures of scenes at coarse positions."""
        pictures = torch.from_numpy(draw_scenes(stream, count, kind, apart=APART).painted())
        part = torch.full((count,), int(kind != KNOWN))
        return Batch(inputs={INPUTS: pictures}, targets=pictures, part=part)

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the mean squared error; label smoothing does not apply to pixels."""
        is_scored = batch.is_scored(outputs.logits)
        wanted = batch.targets.where(is_scored.unsqueeze(-1), outputs.logits.detach())
        total = mse_loss(outputs.logits, wanted, reduction="sum")
        return total / (is_scored.sum() * wanted.shape[-1])
