"""How many pairs are recalled from how many bytes of state?

Arora et al. 2024 (Based, arXiv:2402.18668, figure 2) and Zoology (arXiv:2312.04927): what decoding
keeps decides what can be recalled, and mixers differ in what they make of a byte. Attention keeps
all, a sliding window the last tokens, a matrix state a sum that it may correct (the delta rule),
forget (Mamba-2) or neither (the linear Transformer). Here: recall of 4 and 8 pairs in 64 tokens by
two layers of width 64, at states from a sixteenth of attention's cache to half of it. Width and
parameters stay nearly the same: more heads make a matrix state smaller, fewer tokens a window,
fewer numbers of Mamba-2's keys its own.

Expected: at equal bytes the delta rule recalls more than a window; the linear Transformer, whose
tokens nothing joins to their neighbours, guesses at any size.

Cost: quick about 30 minutes on two cores; standard 25 on one H100, as planned.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ALONE = {"position_mode": "concatenated", "feed_forward": "none"}  # layers of a mixer alone
_LAYERS = "; ".join(f"{knob} {value}" for knob, value in ALONE.items())  # as labels show them

ABLATION = Ablation(
    question="How many pairs are recalled from how many bytes of state?",
    baseline=Model(mixer="attention", heads=1, **ALONE),
    axes=[vary("model", [
        Model(mixer="local_attention", heads=1, window=4, **ALONE),
        Model(mixer="local_attention", heads=1, window=16, **ALONE),
        Model(mixer="linear_transformer", heads=1, **ALONE),
        Model(mixer="mamba2", heads=2, state=8, **ALONE),
        Model(mixer="mamba2", heads=2, state=32, **ALONE),
        Model(mixer="gated_delta", heads=16, value_ratio=1.0, **ALONE),
        Model(mixer="gated_delta", heads=4, value_ratio=1.0, **ALONE),
        Model(mixer="gated_delta", heads=1, value_ratio=1.0, **ALONE),
    ])],
    tasks=["mqar_small"],
    probes=["quality", "floors", "parameters", "flops", "state_bytes"],
    claim=Claim(
        "from about as many bytes the gated delta rule recalls more than a sliding window",
        metric="accuracy",
        a=f"model=gated_delta (heads 4; value_ratio 1.0; {_LAYERS})",
        b=f"model=local_attention (heads 1; window 16; {_LAYERS})",
        by=0.1,
        source="Arora et al. 2024, arXiv:2402.18668, figure 2",
        published="linear attention beside a window recalls more at equal state than a window",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64, depth=2, length=64, steps=1_000, search_steps=300, batch=32, num_evaluations=4,
            seeds=4,
        ),
        "standard": Scale(
            dim=128, depth=2, length=256, steps=4_000, batch=128, warmup_steps=400,
            precision="bf16", gpus=0.125,
        ),
    },
)  # fmt: skip
