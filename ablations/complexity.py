"""What does a mixer cost as sequences grow, and from which length is another one cheaper?

Cost alone: no model is trained here, so nothing is said of what a mixer learns. Table 1 of Vaswani
et al. 2017 (arXiv:1706.03762) by measurement, and the length from which a linear method is faster
than attention, with the fused kernel that people run and with the written-out matrix that papers
compare with (Tay et al. 2020, arXiv:2011.04006, Table 2; Linformer, arXiv:2006.04768, Table 3;
FNet, arXiv:2105.03824). First one layer by itself: by length, width, batch and number of threads.
Then whole models: tokens a second in training, in reading a prompt and in writing; on a GPU also
compiled, each as a CUDA graph and launched. FNet and Linformer mix both directions, so they cannot
write. Expected: the linear methods overtake attention within some hundred tokens; an LSTM later.

Found at quick, forward and backward: Linformer is faster than fused attention from 75 tokens on,
the Performer from 293, the LSTM from 333; convolutions and FNet at each length from 64.
Cost: smoke 3 minutes and quick 35 on two cores; standard 25 on one H100, as planned; paper a
day on a large GPU.
"""

from bakeoff import Ablation, Claim, Model, Scale, vary

ABLATION = Ablation(
    question="What does each mixer cost as sequences grow, and from which length is it faster?",
    baseline=Model(mixer="attention", heads=2, kernel="fused", position="sinusoidal"),
    axes=[
        vary("kernel", ["fused", "materialised"]),
        vary(
            "mixer",
            [
                "plain_attention",
                "local_attention",
                "rnn",
                "gru",
                "lstm",
                "conv",
                "dilated_conv",
                "separable_conv",
                "gated_conv",
                "linformer",
                "performer",
                "linear_transformer",
                "fnet",
                "mlp_mixer",
            ],
            quick=["lstm", "conv", "dilated_conv", "linformer", "performer", "fnet"],
        ),
        vary("runtime", ["auto", "compiled"], quick=[]),
    ],
    tasks=["shakespeare_characters", "shakespeare_masked"],
    probes=[
        "parameters",
        "flops",
        "peak_memory",
        "step_time",
        "decode",
        "mixer_flops",
        "mixer_memory",
        "path_length",
        "mixer_time",
    ],
    words={
        "kernel=fused": "attention",
        "kernel=materialised": "materialised attention",
    },
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
    scales={
        "smoke": Scale(dim=64, depth=2, length=64, steps=1, batch=4, lengths=[64, 256, 1024]),
        "quick": Scale(
            dim=64,
            depth=2,
            length=1024,
            steps=1,
            batch=4,
            decode_batches=[8],
            seeds=6,
            lengths=[64, 128, 256, 512, 1024, 2048, 4096],
            dims=[64, 128, 256],
            batches=[1, 8],
            thread_counts=[1, 2],
            dims_length=1024,
        ),
        "standard": Scale(
            dim=256,
            depth=6,
            length=2048,
            steps=1,
            batch=16,
            decode_batches=[64, 256, 1024],
            precision="bf16",
            gpus=1.0,
            lengths=[64, 256, 1024, 2048, 4096, 8192, 16384, 32768],
            dims=[64, 256, 512, 1024],
            batches=[1, 16],
            dims_length=4096,
        ),
        "paper": Scale(
            dim=512,
            depth=6,
            length=4096,
            steps=1,
            batch=32,
            decode_batches=[64],
            gpus=1.0,
            lengths=[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536],
            dims=[64, 128, 256, 512, 1024],
            batches=[1, 16],
            dims_length=8192,
        ),
    },
)
