"""Does attention to channels make a convolutional network more accurate, and in which order?

Hu et al. 2018 (squeeze and excitation, arXiv:1709.01507, Table 10): a gate for each channel, from
the mean over the map, takes ResNet-50's error on ImageNet from 23.3 to 22.3 %, at any ratio from 2
to 16. Woo et al. 2018 (CBAM, arXiv:1807.06521, section 4.1): a gate for each place after it
gains a little more, and channels first are better than places first. Here: a residual network of
8, 16 and 32 channels, a block each, on clothes of 28 x 28 pixels; CBAM's order, the ratio, and at
standard 32, 64 and 128 channels, and the place of the gate, one at a time.

Expected: gains of less than a point, larger for SE than for what CBAM adds; order and ratio make no
significant difference.

Found at quick: refuted. The accuracy is 0.884 without gates, 0.879 with SE and 0.870 with CBAM (1.4
points less, 0.9 to 2.0, eight seeds); order and ratio make no significant difference. Gates start
near a half, and there are few channels: 2,000 steps may be too few to make up for the damping.

Cost: quick about 30 minutes on two cores; standard 15 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Does attention to channels make a convolutional network more accurate?",
    baseline=Model("resnet", blocks="1-1-1", channel_attention="cbam", ratio=4),
    axes=[
        vary("channel_attention", ["none", "se", "cbam"]),
        vary(
            "cbam_order",
            ["channel_first", "spatial_first", "parallel", "channel_only"],
            quick=["channel_first", "spatial_first"],
        ),
        vary("ratio", [2, 4, 8, 16], quick=[2, 4]),
        vary("channel_attention_place", ["standard", "pre", "post", "identity"], quick=[]),
    ],
    tasks=["fashion_mnist_images"],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "baseline": "CBAM",
        "channel_attention=none": "no attention",
        "channel_attention=se": "attention to channels alone (SE)",
        "channel_attention=cbam": "attention to channels and places (CBAM)",
        "cbam_order=spatial_first": "CBAM with places first",
        "ratio=2": "CBAM with a ratio of 2",
    },
    claim=Claim(
        "attention to channels and places makes a residual network more accurate",
        metric="accuracy",
        a="baseline",
        b="channel_attention=none",
        by=0.005,
        source="Woo et al. 2018, arXiv:1807.06521, section 4.1",
        published="on ImageNet CBAM is ahead of SE, and SE by a point of ResNet-50 without",
    ),
    recipe=Recipe(learning_rate="tuned", weight_decay=0.05, flip=True),
    scales={
        "quick": Scale(
            dim=8,
            length=784,
            steps=2_000,
            search_steps=1_000,
            batch=32,
            num_evaluations=5,
            seeds=8,
        ),
        "standard": Scale(
            dim=32,
            length=784,
            steps=8_000,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
