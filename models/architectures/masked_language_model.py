"""A masked language model: tokens in, some of them hidden; logits of the true token out, for each.

Devlin et al. 2019, "BERT" (arXiv:1810.04805), section 3.1. A bidirectional language model whose
input vocabulary may be larger than its output vocabulary: for example, by the mask token, which
comes last. The task chooses which tokens are hidden.
Departures from BERT: there are no segments, no second layer before the output matrix, and no bias
in it.
"""

from __future__ import annotations

from bakeoff.models.architectures.language_model import LanguageModel
from bakeoff.models.errors import ModelError


class MaskedLanguageModel(LanguageModel):
    """Tokens `[batch, time]` -> logits `[batch, time, output_size]`.

    If tied, the output matrix is the first `output_size` rows of the embedding.
    """

    name = "masked_language_model"
    is_causal = False
    answers = ("symbols",)

    def check_tie(self) -> None:
        """Raise if a token to predict has no row in the embedding.

        Raises:
            ModelError: The output vocabulary is larger than the input vocabulary.
        """
        inputs, outputs = self.spec.input_size, self.spec.output_size
        if inputs < outputs:
            raise ModelError(
                f"{self.name} ties its output to its embedding: input_size={inputs} must be at "
                f"least output_size={outputs} (or is_tied=False)"
            )
