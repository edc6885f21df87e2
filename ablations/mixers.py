"""Attention, recurrence, convolution or no attention at all?

The comparison behind Table 1 of Vaswani et al. 2017 (arXiv:1706.03762), with FNet (Lee-Thorp et
al. 2021, arXiv:2105.03824) as the mixer without parameters: the same skeleton, width, depth and
steps; only the mixer changes. FNet mixes both directions, so it has no cell as a language model.
Variants differ in parameters and FLOPs; the table shows both. Expected: on short text at equal
steps LSTM and attention are close; FNet keeps most of the accuracy of attention on images.

Cost: quick about 4 minutes on two cores; standard hours on one GPU; paper a cluster.
"""

from suite import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="Attention, LSTM, convolution or FNet: which mixer learns most in the same steps?",
    baseline=Model(mixer="attention", heads=8, position="sinusoidal"),
    axes=[vary("mixer", ["attention", "lstm", "conv", "fnet"])],
    tasks=["shakespeare_characters", "fashion_mnist_patches"],
    probes=["quality", "parameters", "flops", "step_time"],
    claim=Claim(
        "attention is a better language model than an LSTM at equal steps",
        metric="bits_per_character",
        a="mixer=attention",
        b="mixer=lstm",
        by=0.02,
        source="Vaswani et al. 2017, section 4 argues it; no published figure at this size",
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
