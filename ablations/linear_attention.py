"""What do the cheaper mixers give up in quality, and what do they save?

Arora, Eyuboglu et al. 2023 (Zoology, arXiv:2312.04927): what tells mixers apart is recall; linear
attention keeps all pairs in one matrix and mixes them up. The Long Range Arena (Tay et al. 2020,
arXiv:2011.04006), Table 1: on ListOps the Transformer reaches 36.4 % and Linformer 35.7 %, but
Performer 18.0 %, the linear Transformer 16.1 % and local attention 15.8 %; Table 2: at 4,096 tokens
Performer takes 5.7 times as many steps a second as the Transformer, Linformer 5.5 times. Here:
recall of pairs, selective copying, and short ListOps, each mixer at its own learning rate; time and
memory of the mixers alone at 1K to 4K tokens; today's mixers beside those of the Arena. Layers are
a mixer alone, as in Zoology's small models, and positions stand beside the tokens. Linformer and
FNet read both ways, so they run on ListOps only.

Expected: on recall attention is ahead of all but the delta rule; short ListOps tells little apart.

Found at quick, three seeds: recall 0.9998 of attention, 0.997 gated delta, 0.999 Mamba-2, a guess
of the linear Transformer, Performer and S4D; ListOps 0.42, gated delta 0.53.

Cost: quick 35 minutes on two cores, standard 25 on one H100 by plan; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What do the cheaper mixers give up in quality, and what do they save?",
    baseline=Model(
        mixer="attention",
        heads=2,
        position="sinusoidal",
        position_mode="concatenated",
        feed_forward="none",
    ),
    axes=[
        vary(
            "mixer",
            [
                "attention",
                "local_attention",
                "linformer",
                "performer",
                "linear_transformer",
                "fnet",
                "s4d",
                "gated_delta",
                "mamba2",
                "nystromformer",
                "retention",
                "delta_net",
            ],
            quick=[
                "attention",
                "local_attention",
                "linformer",
                "performer",
                "linear_transformer",
                "fnet",
                "s4d",
                "gated_delta",
                "mamba2",
            ],
        )
    ],
    tasks=["mqar_small", "selective_copying", "listops"],
    probes=[
        "quality",
        "floors",
        "parameters",
        "flops",
        "mixer_flops",
        "mixer_memory",
        "mixer_time",
    ],
    claim=Claim(
        "attention recalls pairs better than the linear Transformer",
        metric="accuracy",
        task="mqar_small",
        a="mixer=attention",
        b="mixer=linear_transformer",
        by=0.1,
        source="Arora, Eyuboglu et al. 2023, arXiv:2312.04927, section 3",
        published="attention recalls at every width; mixers with a fixed state do not",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            dim=64,
            depth=2,
            length=64,
            steps=1_000,
            batch=32,
            num_evaluations=4,
            seeds=3,
            lengths=[1024, 2048, 4096],
        ),
        "standard": Scale(
            dim=128,
            depth=2,
            length=1024,
            steps=1_300,
            batch=32,
            warmup_steps=130,
            seeds=3,
            lengths=[1024, 2048, 4096, 8192],
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            dim=512,
            depth=6,
            length=2000,
            steps=50_500,
            batch=32,
            warmup_steps=4_000,
            lengths=[1024, 2048, 3072, 4096, 8192, 16384],
            gpus=1.0,
        ),
    },
)
