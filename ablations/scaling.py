"""Is the 1/sqrt(d_k) of attention needed, and from which width of keys on?

Vaswani et al. 2017 (arXiv:1706.03762), section 3.2.1 and footnote 4: products of queries and keys
have variance d_k, and push the softmax to where its gradients are "extremely small"; so they are
scaled by 1/sqrt(d_k). The paper has no table of it. Britz et al. 2017 (arXiv:1703.03906, table on
attention, English-German): unscaled products reach 22.03, 22.33, 21.78 and 18.22 BLEU at widths
128, 256, 512 and 1,024; additive scores 22.2 to 22.5 at all of them. Here: one head, so that only
d_k moves; its values stay as wide as the model. Queries and keys start with variance 1, the premise
of the footnote. Each variant has its own learning rate. Keys of 512 bring more parameters: the
table counts them.

Expected: unscaled, entropy and score gradient at the start fall with d_k; 1/sqrt(d_k) holds both
where they are. The question is whether that changes the loss after training, at the best rates.

Found at quick, five seeds, bits per character: scaled 2.811 at d_k = 64 and 2.800 at 512, unscaled
3.089 and 3.652, where a 5-gram model needs 2.882. Unscaled, the softmax starts with 0.20 and 0.07
of the largest entropy, scaled with 0.9 at both. After a thousand steps, that is: Britz et al.
trained far longer and lost less.

Cost: quick about 20 minutes on two cores; standard 24 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Is the 1/sqrt(d_k) of attention needed, and from which d_k on?",
    baseline=Model(
        "language_model",
        mixer="attention",
        heads=1,
        key_dim=512,
        score="dot",
        scale="1/sqrt(d)",
        position="sinusoidal",
    ),
    axes=[
        vary("key_dim", [8, 32, 64, 128, 512], quick=[64, 512]),
        vary("scale", ["1/sqrt(d)", "none", "1/d", "learned"], quick=["1/sqrt(d)", "none"]),
    ],
    combine="cross",
    tasks=["shakespeare_characters"],
    probes=["quality", "floors", "softmax", "parameters"],
    words={
        "scale=1/sqrt(d)": "scaled",
        "scale=none": "unscaled",
    },
    claim=Claim(
        "at d_k = 512 scaled dot products end at a lower loss than unscaled ones",
        metric="bits_per_character",
        a="key_dim=512, scale=1/sqrt(d)",
        b="key_dim=512, scale=none",
        by=0.02,
        source="Vaswani et al. 2017, section 3.2.1 and footnote 4",
        published="extremely small gradients, without a figure; Britz et al.: 21.78 BLEU at 512",
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
            dim=256, depth=4, length=128, steps=2_200, batch=64, precision="bf16", gpus=1.0
        ),
        "paper": Scale(
            dim=512, depth=6, length=128, steps=50_000, batch=64, warmup_steps=4_000, gpus=1.0
        ),
    },
)
