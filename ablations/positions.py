"""Which position encoding, and which of them serves beyond the length that it was trained at?

Vaswani et al. 2017 (arXiv:1706.03762, Table 3, row E): learned positions are as good as sinusoids.
Press et al. 2022 (arXiv:2108.12409, figure 1): sinusoids fail soon beyond the trained length, RoPE
later, T5's bias later still, ALiBi not at all. Here: seven encodings and none, tested at up to 8
times the trained length; next characters (causal) and hidden ones (both directions). Shaw is of
arXiv:1803.02155, T5 of 1910.10683, RoPE of 2104.09864. Parameters differ by what is learned.
Expected: a model of both directions without positions sees a bag of characters and is worst; ALiBi
there knows distances, not directions. T5 tells distances apart up to 128, so that at quick those
beyond the 32 trained ones are strange to it, as they are not at standard; Shaw's end at 16.
Not as published, at quick: RoPE at 8 times the length is no better than sinusoids (4.4 bits). A
causal model without positions loses 0.4 bits.

Cost: quick about 9 minutes on two cores; standard a day on one GPU; paper a cluster.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which position encoding, and which serves beyond the length it was trained at?",
    baseline=Model(mixer="attention", heads=4, position="sinusoidal"),
    axes=[
        vary("position", ["none", "sinusoidal", "learned", "shaw", "t5", "rope", "alibi"]),
        vary("position_mode", ["added", "concatenated"]),
    ],
    tasks=["shakespeare_characters", "shakespeare_masked"],
    probes=["quality", "floors", "parameters"],
    claim=Claim(
        "at 256 tokens, beyond the trained length, ALiBi predicts better than sinusoids",
        metric="bits_per_character",
        task="shakespeare_characters",
        at="length=256",
        a="position=alibi",
        b="baseline",
        by=0.1,
        source="Press et al. 2022, arXiv:2108.12409, figure 1",
        published="beyond the trained length ALiBi keeps its perplexity and sinusoids lose theirs",
    ),
    recipe=Recipe(schedule="cosine"),
    scales={
        "quick": Scale(
            dim=64, depth=2, length=32, steps=700, batch=32, learning_rate=5e-3,
            num_evaluations=5, test_lengths=[64, 128, 256],
        ),
        "standard": Scale(
            dim=256, depth=6, length=128, steps=20_000, batch=128, warmup_steps=1_000, gpus=1.0,
            test_lengths=[256, 512, 1024],
        ),
        "paper": Scale(
            dim=512, depth=6, length=128, steps=100_000, batch=512, learning_rate=7e-4,
            warmup_steps=4_000, gpus=1.0, test_lengths=[256, 512, 1024],
        ),
    },
)  # fmt: skip
