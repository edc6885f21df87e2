"""Draw the picture of a caption, token by token.

This is the second of two training stages: in the first one, on
`bakeoff.suite.tasks.emoji.emoji_pictures`, a model has learned a code of tokens for such pictures.

    inputs    1, then the words of a caption, as in `bakeoff.suite.tasks.emoji.emoji_scenes`, with
              the same pairs of objects held out; padded at the end
    context   its picture, whose tokens the model predicts, each given the caption and the tokens
              before it; the picture is absent when the model draws
    loss      the cross-entropy of the tokens; a model may add that of the words
    score     the share of drawn pictures whose caption, read from their pixels by rule
              (`bakeoff.suite.tasks.emoji.reading`), is the given one. The score therefore compares
              models with different codes, which bits per token do not
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from bakeoff.models.interface import CONTEXT, Outputs
from bakeoff.suite.tasks.bases.captions import PictureTask, Words, captioned
from bakeoff.suite.tasks.bases.generated import definition_source
from bakeoff.suite.tasks.data_order import RandomStream
from bakeoff.suite.tasks.emoji.atlas import SOURCE
from bakeoff.suite.tasks.emoji.emoji_pictures import CoarseScenes, EmojiPictures
from bakeoff.suite.tasks.emoji.emoji_scenes import (
    KNOWN,
    LENGTH,
    NUM_SYMBOLS,
    EmojiScenes,
    captions,
    draw_scenes,
)
from bakeoff.suite.tasks.emoji.picture_metrics import (
    BitsPerImageToken,
    CodebookPerplexity,
    image_tokens,
    scored_rows,
)
from bakeoff.suite.tasks.emoji.reading import APART, ObjectsDrawn, PicturesRight
from bakeoff.suite.tasks.task import UNSCORED, Batch

VERSION = 1


class EmojiTokens(PictureTask, CoarseScenes):
    """Generation of the picture of a caption."""

    name = "emoji_tokens"
    version = VERSION
    architecture = "image_tokens"
    asks_for = "drawing"
    fixed_length = LENGTH
    metric = PicturesRight(is_drawn=True)
    also_scored = (ObjectsDrawn(is_drawn=True), BitsPerImageToken(), CodebookPerplexity())
    floors = ("nearest_drawing",)
    picture = EmojiScenes.picture
    input_size = NUM_SYMBOLS
    output_size = 3
    source = definition_source(
        name="emoji_tokens",
        title="Captions of scenes of emoji, to be drawn",
        origin="this project, of emoji by OpenMoji, CC BY-SA 4.0",
        definition={"pictures": EmojiPictures.source.sha256},
        version=VERSION,
        beside=(SOURCE,),
    )

    @classmethod
    def vocabulary(cls) -> Words:
        """Return the words of the captions."""
        return EmojiScenes.vocabulary()

    def draw(self, stream: RandomStream, count: int, kind: int) -> Batch:
        """Draw scenes at coarse positions, with their captions."""
        scenes = draw_scenes(stream, count, kind, apart=APART)
        inputs, _ = captioned(captions(scenes)[0], scenes.painted())
        part = torch.full((count,), int(kind != KNOWN))
        return Batch(inputs=inputs, targets=inputs[CONTEXT], part=part)

    def loss(self, outputs: Outputs, batch: Batch, label_smoothing: float = 0.0) -> Tensor:
        """Return the cross-entropy of the tokens of the pictures.

        Raises:
            TaskError: if the model returns no tokens.
        """
        is_left_out = ~scored_rows(batch).unsqueeze(-1)
        tokens = image_tokens(outputs).masked_fill(is_left_out, UNSCORED)
        logits = outputs.logits.flatten(0, 1)
        return cross_entropy(
            logits, tokens.flatten(), ignore_index=UNSCORED, label_smoothing=label_smoothing
        )
