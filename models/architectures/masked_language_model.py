"""A masked language model: tokens in, some of them hidden; logits of the true token out, for each.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1. A language model that sees both
directions, with a vocabulary to read that may be larger than the one to predict: by the token that
stands for a hidden one, say, which comes last. Which tokens are hidden is the task's to choose.
Departures from BERT: no segments, no second layer before the output matrix, no bias in it.
"""

from __future__ import annotations

from models.architectures.language_model import LanguageModel
from models.errors import ModelError


class MaskedLanguageModel(LanguageModel):
    """Tokens `[batch, time]` -> logits `[batch, time, output_size]`.

    Where tied, the output matrix is the first `output_size` rows of the embedding.
    """

    name = "masked_language_model"
    is_causal = False
    answers = ("symbols",)

    def check_tie(self) -> None:
        """Refuse to predict a token that has no row in the embedding.

        Raises:
            ModelError: more tokens to predict than to read.
        """
        inputs, outputs = self.spec.input_size, self.spec.output_size
        if inputs < outputs:
            raise ModelError(
                f"{self.name} ties its output to its embedding: input_size={inputs} must be at "
                f"least output_size={outputs} (or is_tied=False)"
            )
