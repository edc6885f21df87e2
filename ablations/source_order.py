"""Does it help to reverse the source?

Sutskever et al. 2014 (arXiv:1409.3215, section 3.3): with the source reversed, an LSTM that keeps
it in one vector translates better: the first words of the target then stand next to the first words
of the source. Luong et al. 2015 (arXiv:1508.04025, Table 1) gain 1.3 BLEU by it. A decoder with
attention can look anywhere. Here: both, each with the source as it is and reversed, copying
digits (16 at quick), a task about the distance alone. Standard also translates verses of the Bible:
at quick's steps a vector of this width beats no dictionary.

Expected: reversing helps the fixed vector, and not attention.

Found at quick, five seeds, share of sequences of 16 or 8 digits copied without an error: the fixed
vector 0.59 reversed, 0.01 as they are; attention 0.999 both ways. For 16 digits: 0.21, 0 and 0.999.

Cost: quick about 15 minutes on two cores; standard 14 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does it help to reverse the source?",
    baseline=Model("seq2seq", label="LSTM without attention"),
    axes=[
        vary(
            "model",
            [
                Model("seq2seq", label="LSTM without attention"),
                Model(
                    "attentive_seq2seq",
                    label="LSTM with attention",
                    form="luong",
                    score="general",
                ),
            ],
        ),
        vary("is_source_reversed", [True, False]),
    ],
    combine="cross",
    tasks=["copying", "bible_en_de"],
    probes=["quality", "floors", "parameters"],
    words={
        "is_source_reversed=true": "reversed",
        "is_source_reversed=false": "in order",
    },
    claim=Claim(
        "without attention, a reversed source is copied better than one in order",
        metric="exact_match",
        task="copying",
        a="model=LSTM without attention, is_source_reversed=true",
        b="model=LSTM without attention, is_source_reversed=false",
        by=0.1,
        source="Luong et al. 2015, arXiv:1508.04025, Table 1",
        published="12.6 BLEU with the source reversed, 11.3 BLEU as it is (English to German)",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["copying"],
            dim=64,
            depth=1,
            length=17,
            steps=1_500,
            search_steps=1_500,
            batch=64,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=256,
            depth=1,
            length=64,
            steps=4_000,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
