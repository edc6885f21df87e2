"""How many heads at a fixed width, how wide their keys, how deep and wide the model?

Vaswani et al. 2017 (arXiv:1706.03762), Table 3, English-German translation, against a base of 8
heads, d_k 64, 6 layers, width 512 (25.8 BLEU): rows A, one head loses 0.9 BLEU and 32 heads 0.4;
rows B, d_k of 16 loses 0.7; rows C, 2 layers lose 2.1, 8 layers 0.3, width 256 loses 1.3, 1,024
gains 0.2. Here: language modelling on Shakespeare, one change at a time. Heads share out the same
width and compute; narrower keys, depth and width change both, as the table counts.
Expected: one head is worse and the middle is flat; depth and width matter more than heads. Quick
is too small to be sure: its base has keys of 8 numbers, so that rows B take 2.

Cost: quick about 4 minutes on two cores; standard about half a day on one GPU; paper a cluster.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How many attention heads at a fixed width, and what do d_k, depth and width do?",
    baseline=Model("language_model", mixer="attention", heads=8, position="sinusoidal"),
    axes=[
        vary("heads", [1, 2, 4, 8, 16], quick=[1, 2, 8, 16]),
        vary("key_dim", [2, 4, 16, 32], quick=[2]),
        vary("depth", [1, 2, 4, 8], quick=[1, 4]),
        vary("dim", [32, 128, 256, 512, 1024], quick=[32, 128]),
    ],
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "parameters", "flops", "step_time"],
    claim=Claim(
        "8 heads beat one",
        metric="bits_per_character",
        a="baseline",
        b="heads=1",
        by=0.02,
        source="Vaswani et al. 2017, Table 3, rows A",
        published="25.8 BLEU with 8 heads, 24.9 with one (English to German)",
    ),
    recipe=Recipe(schedule="cosine"),
    scales={
        "quick": Scale(
            dim=64, depth=2, length=64, steps=300, batch=16, learning_rate=3e-3, num_evaluations=5
        ),
        "standard": Scale(
            dim=256, depth=6, length=256, steps=20_000, batch=64, warmup_steps=1_000, gpus=1.0
        ),
        "paper": Scale(
            dim=512, depth=6, length=512, steps=100_000, batch=128, learning_rate=7e-4,
            warmup_steps=4_000, gpus=1.0,
        ),
    },
)  # fmt: skip
