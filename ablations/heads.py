"""How many heads at a fixed width?

Vaswani et al. 2017 (arXiv:1706.03762), Table 3, rows A: on English-German translation one head
loses 0.9 BLEU against the best setting, and quality drops off again with too many heads. Here:
the same width and compute split over 1 to 16 heads, language modelling on Shakespeare.
Expected: one head is worse; the middle is flat. Quick is too small to be sure of either.

Cost: quick about 3 minutes on two cores; standard hours on one GPU; paper a cluster.
"""

from suite import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="How many attention heads at a fixed width?",
    baseline=Model("language_model", mixer="attention", heads=8, position="sinusoidal"),
    axes=[vary("heads", [1, 2, 4, 8, 16])],
    tasks=["shakespeare_characters"],
    probes=["quality", "parameters", "flops", "step_time"],
    claim=Claim(
        "8 heads beat one",
        metric="bits_per_character",
        a="heads=8",
        b="heads=1",
        by=0.02,
        source="Vaswani et al. 2017, Table 3, rows A",
        published="25.8 BLEU with 8 heads, 24.9 with one (English to German)",
    ),
    scales={
        "quick": Scale(dim=64, depth=2, length=64, steps=300, batch=16, learning_rate=3e-3),
        "standard": Scale(
            dim=256, depth=6, length=256, steps=20_000, batch=64, warmup_steps=1_000, gpus=1.0
        ),
        "paper": Scale(
            dim=512, depth=6, length=512, steps=100_000, batch=128, learning_rate=7e-4,
            warmup_steps=4_000, gpus=1.0,
        ),
    },
)  # fmt: skip
