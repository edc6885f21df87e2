"""How many pairs are recalled from how many bytes of state?

Arora et al. 2024 (Based, arXiv:2402.18668, figure 2) and Zoology (arXiv:2312.04927): what decoding
keeps decides what can be recalled, and mixers differ in what they make of a byte: attention keeps
all, a sliding window the last tokens, a matrix state a sum. Here: recall of 4 and 8 pairs in 64
tokens by two layers of width 64, without a feed-forward, at states from a tenth of attention's
cache to half of it: more heads make a matrix state smaller. Parameters stay nearly the same.

Expected: at equal bytes the delta rule beats a window; the linear Transformer guesses at any size.

Found at quick, four seeds: gated delta 0.29, 0.960 and 0.999 of 6.5, 12.5 and 36.5 KiB; Mamba-2
0.88 and 0.995 of 11.4 and 36.5; a window of 16 KiB 0.761; linear Transformer of 32.5 0.19.

Cost: quick about 35 minutes on two cores; standard 20 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How many pairs are recalled from how many bytes of state?",
    baseline=Model(mixer="attention", heads=1, position_mode="concatenated", feed_forward="none"),
    axes=[
        vary(
            "model",
            [
                Model(
                    mixer="local_attention",
                    heads=1,
                    label="window of 16",
                    window=16,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="linear_transformer",
                    label="linear attention",
                    heads=1,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="mamba2",
                    heads=2,
                    label="Mamba-2 with state 8",
                    state=8,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="mamba2",
                    heads=2,
                    label="Mamba-2 with state 32",
                    state=32,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="gated_delta",
                    label="gated delta with 16 heads",
                    heads=16,
                    value_ratio=1.0,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="gated_delta",
                    label="gated delta with 4 heads",
                    heads=4,
                    value_ratio=1.0,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
                Model(
                    mixer="gated_delta",
                    label="gated delta with 1 head",
                    heads=1,
                    value_ratio=1.0,
                    position_mode="concatenated",
                    feed_forward="none",
                ),
            ],
        )
    ],
    tasks=["mqar_small"],
    probes=["quality", "floors", "parameters", "flops", "state_bytes"],
    claim=Claim(
        "with about as many bytes the gated delta rule recalls more than a sliding window",
        metric="accuracy",
        a="model=gated delta with 4 heads",
        b="model=window of 16",
        by=0.1,
        source="Arora et al. 2024, arXiv:2402.18668, figure 2",
        published="linear attention beside a window recalls more at equal state than a window",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=64,
            steps=2_000,
            search_steps=1_000,
            batch=32,
            seeds=4,
            num_evaluations=4,
        ),
        "standard": Scale(
            dim=128,
            depth=2,
            length=256,
            steps=4_000,
            batch=128,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
