"""What do the cheaper mixers give up in quality, and what do they save?

The Long Range Arena (Tay et al. 2020, arXiv:2011.04006), Table 1: on ListOps the Transformer
reaches 36.4 % and Linformer 35.7 %, but Performer 18.0 %, the linear Transformer 16.1 % and local
attention 15.8 %; on byte-level text and on images row by row they stand within some points of it.
FNet (arXiv:2105.03824, abstract) keeps 92 to 97 % of BERT's accuracy on GLUE. Table 2: at 4,096
tokens Performer takes 5.7 times as many steps a second as the Transformer, Linformer 5.5 times.
Here: ListOps, which play of Shakespeare a window of bytes is from, and clothes pixel by pixel;
time and memory of the mixers alone at 1K to 4K tokens.
Expected: at quick scale, where trees are short, all within points of it; the gaps at standard.
Found at quick scale with twice the batch, five seeds: on ListOps Performer .22, attention .19,
Linformer .31, MLP-Mixer .32; on pixels .72 and .75 of the last two against .36; nothing has begun
on the plays (.03; TF-IDF .44). Both have parameters for every place, FNet none.

Cost: quick 10 to 11 minutes on two cores, 4 of them timing; standard most of a day on one GPU;
paper, at the Arena's lengths, a cluster.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What do the cheaper mixers give up in quality, and what do they save?",
    baseline=Model(mixer="attention", heads=2, position="sinusoidal"),
    axes=[
        vary("mixer", [
            "attention", "local_attention", "linformer", "performer", "linear_transformer", "fnet",
            "mlp_mixer",
        ]),
    ],
    tasks=["listops", "shakespeare_plays", "fashion_mnist_pixels"],
    probes=[
        "quality", "floors", "parameters", "flops", "step_time", "mixer_flops", "mixer_memory",
        "mixer_time",
    ],
    claim=Claim(
        "on ListOps attention is more accurate than Performer",
        metric="accuracy",
        task="listops",
        a="mixer=attention",
        b="mixer=performer",
        by=0.05,
        source="Tay et al. 2020, arXiv:2011.04006, Table 1",
        published="36.37 % against 18.01 % at 2,000 tokens",
    ),
    recipe=Recipe(schedule="cosine"),
    scales={
        "quick": Scale(
            dim=32, depth=2, length=128, steps=150, batch=8, learning_rate="tuned",
            num_evaluations=3, lengths=[1024, 2048, 4096],
        ),
        "standard": Scale(
            dim=128, depth=4, length=1024, steps=10_000, batch=32, learning_rate=1e-3,
            warmup_steps=1_000, lengths=[1024, 2048, 4096, 8192], gpus=1.0,
        ),
        "paper": Scale(
            dim=512, depth=6, length=2000, steps=50_000, batch=32, learning_rate=5e-4,
            warmup_steps=4_000, lengths=[1024, 2048, 3072, 4096, 8192, 16384], gpus=1.0,
        ),
    },
)  # fmt: skip
