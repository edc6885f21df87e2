"""What does pre-training on texts without labels gain, and does it matter on which?

Radford et al. 2018 (GPT, Table 5) fine-tune with and without pre-training: 91.3 against 84.0 % on
SST-2. Devlin et al. 2019 (BERT, arXiv:1810.04805) mask words of 3.3 billion. Krishna et al. 2023
(arXiv:2209.14389) found pre-training on the texts of the task itself as good as on others. Here: a
network of 2 blocks is pre-trained on definitions (0.4 million words, 11 epochs), then learns their
topics from 1,000 labels or 100, which are the same for all seeds; at standard scale on other texts,
too. ``steps=9600`` spends on labels alone the FLOPs of both: the claim is at equal FLOPs.

Expected: own texts help, most with few labels; others help less; longer on labels helps nothing.

Cost: smoke seconds; quick about 80 minutes on two cores; standard 25 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What does pre-training on texts without labels gain?",
    baseline=Model(
        "bert_classifier",
        mixer="attention",
        heads=4,
        position="learned",
        pooling="mean",
        initialisation="scaled_normal",
    ),
    axes=[
        vary(
            "start",
            ["definitions_masked", "none", "wikipedia_masked", "plays_masked", "english_masked"],
            quick=["definitions_masked", "none"],
        ),
        vary("num_training_examples", [100, 10_000], quick=[100]),
        vary("steps", [9_600]),
    ],
    combine="first_with_each",
    tasks=["glosses_in_words"],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "start=definitions_masked": "pre-training on definitions",
        "start=none": "no pre-training",
        "num_training_examples=100": "100 labels",
        "num_training_examples=1000": "1,000 labels",
    },
    claim=Claim(
        "with 1,000 labels, pre-training on definitions gains more than longer training",
        metric="accuracy",
        a="start=definitions_masked",
        b="start=none, steps=9600",
        by=0.02,
        source="Radford et al. 2018, GPT, Table 5: equal steps on labels, not equal FLOPs",
        published="91.3 against 84.0 % on SST-2, 81.8 against 75.7 % on MNLI",
    ),
    recipe=Recipe(learning_rate="tuned", pretraining_learning_rate=0.001),
    scales={
        "smoke": Scale(
            dim=16,
            depth=1,
            length=16,
            steps=10,
            batch=8,
            warmup_steps=0,
            pretraining_steps=10,
            num_training_examples=1_000,
            start="definitions_masked",
            num_evaluations=1,
        ),
        "quick": Scale(
            dim=96,
            depth=2,
            length=24,
            steps=300,
            search_steps=300,
            batch=32,
            pretraining_steps=6_000,
            num_training_examples=1_000,
            start="definitions_masked",
            num_evaluations=3,
            seeds=4,
        ),
        "standard": Scale(
            dim=256,
            depth=4,
            length=32,
            steps=600,
            search_steps=600,
            batch=64,
            pretraining_steps=8_200,
            num_training_examples=1_000,
            start="definitions_masked",
            seeds=3,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
