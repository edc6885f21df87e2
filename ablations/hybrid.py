"""How many layers of attention does a model with a fixed state need?

Kimi Team 2025 (Kimi Linear, arXiv:2510.26692), the ablation of the ratio: of three layers with a
fixed state to one of attention comes the best perplexity; Qwen3-Next and most models of 2026 have
that share. A state of fixed size lacks recall (Zoology, arXiv:2312.04927). Here: four
layers, of which none, one, two or all attend; the others are the gated delta rule, whose state is
small on purpose: eight heads, at quick of 4 x 4 numbers each. NAME*3+attention lists the layers
from the bottom upwards. All read sinusoids beside the tokens.

Expected: one layer of attention recalls about as much as two, and both more than none.

Found at quick, three seeds, 1,500 steps: one layer of four 0.96, two 0.93 (0.85 to 1.00 by seed),
none 0.19 (a guess: 0.17), which no rate lets learn in the 750 steps of the search. Attention
alone is not asked there: one training of 2,000 steps at a rate of 0.01 ended at 0.16.

Cost: quick about 15 minutes on two cores; standard 25 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="How many layers of attention does a model with a fixed state need?",
    baseline=Model(
        mixer="gated_delta*3+attention",
        heads=8,
        value_ratio=1.0,
        feed_forward="none",
        position_mode="concatenated",
    ),
    axes=[
        vary(
            "mixer",
            ["gated_delta*3+attention", "gated_delta", "gated_delta+attention", "attention"],
            quick=["gated_delta*3+attention", "gated_delta", "gated_delta+attention"],
        )
    ],
    tasks=["mqar_small", "shakespeare_characters"],
    probes=["quality", "floors", "parameters", "flops", "state_bytes"],
    words={
        "mixer=gated_delta*3+attention": "attention in 1 layer of 4",
        "mixer=gated_delta+attention": "attention in 2 layers of 4",
        "mixer=gated_delta": "no attention",
        "mixer=attention": "attention in all layers",
    },
    claim=Claim(
        "one layer of attention in four recalls more than none",
        metric="accuracy",
        task="mqar_small",
        a="mixer=gated_delta*3+attention",
        b="mixer=gated_delta",
        by=0.05,
        source="Kimi Team 2025, arXiv:2510.26692, the ablation of the ratio",
        published="three layers of Kimi Delta to one of attention have the best perplexity",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=["mqar_small"],
            dim=32,
            depth=4,
            length=64,
            steps=1_500,
            search_steps=750,
            batch=32,
            num_evaluations=4,
            seeds=3,
        ),
        "standard": Scale(
            dim=128,
            depth=4,
            length=512,
            steps=2_950,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
