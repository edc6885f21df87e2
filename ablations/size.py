"""Does depth or width matter more to a Transformer?

Vaswani et al. 2017 (arXiv:1706.03762), Table 3, rows C, English-German translation, against a base
of 6 layers and width 512 (25.8 BLEU): 4 layers lose 0.5 BLEU, 2 layers 2.1, 8 layers 0.3; width 256
loses 1.3, width 1,024 gains 0.2. Here: language modelling on Shakespeare, depth or width halved and
doubled, each model at its own learning rate. Both change parameters and compute, width by its
square: the table counts them.

Expected: half the width costs more than half the depth, since it has a quarter of the parameters.

Found at quick, five seeds, bits per character: 2.771; half the depth 2.837, half the width 2.967,
twice the depth 2.745 (not significant), twice the width 2.711, where a 5-gram model needs 2.882.

Cost: quick about 20 minutes on two cores; standard 25 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does depth or width matter more to a Transformer?",
    baseline=Model("language_model", mixer="attention", heads=4, position="sinusoidal"),
    axes=[
        vary("depth", [1, 2, 4, 6, 12], quick=[1, 2, 4]),
        vary("dim", [32, 64, 128, 256, 512], quick=[32, 64, 128]),
    ],
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "parameters", "flops"],
    claim=Claim(
        "half the depth costs less than half the width",
        metric="bits_per_character",
        a="depth=1",
        b="dim=32",
        by=0.05,
        source="Vaswani et al. 2017, Table 3, rows C",
        published="25.3 BLEU with 4 of 6 layers, 24.5 with width 256 of 512 (English to German)",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["shakespeare_tragedies"],
            dim=64,
            depth=2,
            length=64,
            steps=1_000,
            batch=32,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=256,
            depth=6,
            length=256,
            steps=2_900,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
