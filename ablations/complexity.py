"""What does a mixer cost, how does that grow, and what does it buy?

Table 1 of Vaswani et al. 2017 (arXiv:1706.03762) by measurement, and the length from which a linear
method is faster than attention, with the fused kernel that people run and with the written-out
matrix that papers compare with (Tay et al. 2020, arXiv:2011.04006, Table 2; Linformer,
arXiv:2006.04768, Table 3; FNet, arXiv:2105.03824). Beside it what each mixer learns in the same
steps. FNet and Linformer mix both directions, so they have no cell as a language model.
Expected: the linear methods overtake attention within some hundred tokens; an LSTM later.

Cost: quick about 10 minutes on two cores; standard hours on one GPU; paper a day on a large one.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What does each mixer cost as sequences grow, and from which length is it faster?",
    baseline=Model(mixer="attention", heads=2, kernel="fused", position="sinusoidal"),
    axes=[
        vary("kernel", ["fused", "materialised"]),
        vary("mixer", [
            "plain_attention", "local_attention", "rnn", "gru", "lstm", "conv", "dilated_conv",
            "separable_conv", "gated_conv", "linformer", "performer", "linear_transformer", "fnet",
            "mlp_mixer",
        ], quick=["lstm", "conv", "dilated_conv", "linformer", "performer", "fnet"]),
    ],
    tasks=["shakespeare_characters", "fashion_mnist_patches"],
    probes=[
        "quality", "parameters", "flops", "peak_memory", "step_time",
        "mixer_flops", "mixer_memory", "path_length", "mixer_time",
    ],
    claim=Claim(
        "at 4,096 tokens Linformer's forward pass is faster than attention's with the fused kernel",
        metric="forward_seconds",
        task="mixer_alone",
        at="length=4096",
        a="mixer=linformer",
        b="baseline",
        by=0.0,
        source="Wang et al. 2020, arXiv:2006.04768, Table 3",
        published="3.4 times as fast as the Transformer at 4,096 tokens, k=128, kernel unnamed",
    ),
    recipe=Recipe(schedule="cosine"),
    scales={
        "quick": Scale(
            dim=64, depth=2, length=64, steps=300, batch=16, learning_rate=3e-3,
            lengths=[64, 256, 1024, 2048, 4096], dims=[64, 128, 256], dims_length=256,
        ),
        "standard": Scale(
            dim=256, depth=6, length=256, steps=20_000, batch=64, warmup_steps=1_000, gpus=1.0,
            lengths=[64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384],
            dims=[64, 128, 256, 512, 1024], dims_length=4096,
        ),
        "paper": Scale(
            dim=512, depth=6, length=512, steps=100_000, batch=128, learning_rate=7e-4,
            warmup_steps=4_000, gpus=1.0,
            lengths=[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536],
            dims=[64, 128, 256, 512, 1024], dims_length=8192,
        ),
    },
)  # fmt: skip
