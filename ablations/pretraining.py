"""What is it worth to read texts without labels first, and does it matter which?

Devlin et al. 2019 (BERT, arXiv:1810.04805, Table 5) train on hidden words of 3.3 billion, then on
labels, and are right in 84 to 93 %; they print no training without the first part. Krishna et al.
2023 (arXiv:2209.14389) found the texts of a task itself as good to read as others. Here: a network
of 2 blocks reads 0.4 million words of definitions, or of Wikipedia, then learns topics of
definitions from 1,000 labels or 100. ``steps=6000`` spends on labels alone what reading costs in
FLOPs.

Expected: own texts help, most with few labels; others help less; longer on labels helps nothing.

Cost: smoke seconds; quick about 45 minutes on two cores; standard 25 on one H100, as planned.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What is it worth to read texts without labels first?",
    baseline=Model(
        "bert_classifier", mixer="attention", heads=4, position="learned", pooling="mean",
        initialisation="scaled_normal",
    ),
    axes=[
        vary("start", ["definitions_masked", "none", "wikipedia_masked", "plays_masked",
                       "english_masked"],
             quick=["definitions_masked", "none", "wikipedia_masked"]),
        vary("num_training_examples", [10, 100, 10_000], quick=[100]),
        vary("steps", [300, 6_000]),
    ],
    combine="first_with_each",
    tasks=["glosses_in_words"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "with 100 labels a model that has read definitions names more topics right",
        metric="accuracy",
        a="start=definitions_masked, num_training_examples=100",
        b="start=none, num_training_examples=100",
        by=0.02,
        source="Devlin et al. 2019, arXiv:1810.04805, section 4 and Table 5",
        published="84.4 to 92.7 % on MNLI, QNLI, MRPC and SST-2; none without pre-training",
    ),
    recipe=Recipe(learning_rate="tuned", pretraining_learning_rate=0.001),
    scales={
        "smoke": Scale(
            dim=16, depth=1, length=16, steps=20, batch=8, warmup_steps=0, pretraining_steps=20,
            num_training_examples=1_000, start="definitions_masked", num_evaluations=1,
        ),
        "quick": Scale(
            dim=96, depth=2, length=24, steps=300, search_steps=300, batch=32,
            pretraining_steps=4_000, num_training_examples=1_000, start="definitions_masked",
            num_evaluations=3, seeds=4,
        ),
        "standard": Scale(
            tasks=["glosses_in_words", "reviews_in_words", "plays_in_words"],
            dim=256, depth=4, length=32, steps=600, batch=64, pretraining_steps=20_000,
            num_training_examples=1_000, start="definitions_masked", precision="bf16", gpus=0.125,
        ),
    },
)  # fmt: skip
