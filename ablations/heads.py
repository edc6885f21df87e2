"""How many heads at a fixed width?

Vaswani et al. 2017 (arXiv:1706.03762), Table 3, rows A, English-German translation, against a base
of 8 heads (25.8 BLEU): one head loses 0.9 BLEU, 4 and 16 heads nothing or 0.1, 32 heads 0.4. Heads
share out the same width and compute. Here: language modelling on Shakespeare, each number of heads
at its own learning rate; at standard also English to German, as in the paper, where encoder,
decoder and the attention between them all have as many heads. Depth and width: see `size`.

Expected: one head is worse and the middle is flat. At quick a head of 8 has keys of 8 numbers, so
the flat part may lie lower.

Found at quick, ten seeds, bits per character: one head 2.766, 2 heads 2.741, 4 heads 2.729, 8 heads
2.736; one head is worse than 8 by 0.031 (0.010 to 0.051), the others do not differ significantly. A
5-gram model needs 2.882.

Cost: quick about 30 minutes on two cores; standard 25 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How many attention heads at a fixed width?",
    baseline=Model(mixer="attention", heads=8, position="sinusoidal"),
    axes=[vary("heads", [1, 2, 4, 8, 16, 32], quick=[1, 2, 4, 8])],
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "8 heads beat one",
        metric="bits_per_character",
        a="heads=8",
        b="heads=1",
        by=0.02,
        source="Vaswani et al. 2017, Table 3, rows A",
        published="25.8 BLEU with 8 heads, 24.9 with one (English to German)",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["shakespeare_tragedies"],
            dim=64,
            depth=2,
            length=64,
            steps=1_500,
            batch=32,
            num_evaluations=5,
            seeds=10,
        ),
        "standard": Scale(
            tasks=["shakespeare_characters", "bible_en_de"],
            dim=256,
            depth=6,
            length=128,
            steps=2_150,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            dim=512, depth=6, length=512, steps=100_000, batch=128, warmup_steps=4_000, gpus=1.0
        ),
    },
)
