"""Which efficient Transformer is as good as attention on long sequences, and what does it save?

The Long Range Arena (Tay et al. 2020, arXiv:2011.04006): five tasks of 1,024 to 4,096 tokens, in
Table 1 by accuracy, in Table 2 by speed and memory. No mixer is best everywhere: BigBird has the
best average, kernels are fastest, and local attention loses most on ListOps (15.8 % against 36.4).
S4 (arXiv:2111.00396) left them all behind, with long convolutions; `s4d` is its diagonal form.
Here: the same questions at lengths that a laptop can train. Text is sentences of film reviews in
words, retrieval pairs of Bible passages, the image clothes in patches of 16 pixels. Standard has
1,024 tokens of ListOps and single pixels, so that its two tasks train long enough; paper all five,
with IMDb by bytes and ListOps of 2,000. Quick trains on 25,600 examples, standard on 64,000; the
Arena has more.

Expected: at quick attention beats the floor of ListOps. Retrieval (0.73 after 40,900 examples of
128 bytes, below spelling) and Pathfinder need more.

Found at quick, three seeds: ListOps: attention 0.414, local 0.401, BigBird 0.410, Linformer 0.395,
linear Transformer 0.405, S4D 0.388, outermost operator 0.324. Not tested, since attention is not
safely above the floor: reviews (0.769, TF-IDF 0.778), clothes (0.831, linear 0.848), retrieval
(0.52, spelling 0.72), Pathfinder (0.518, linear 0.516).

Cost: quick about 75 minutes on two cores; standard 19 on one H100, as planned; paper a cluster.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which efficient mixer is as good as attention on long sequences, and what is saved?",
    baseline=Model(mixer="attention", heads=4, position="learned"),
    axes=[
        vary(
            "mixer",
            [
                "attention",
                "local_attention",
                "strided_attention",
                "bigbird",
                "linformer",
                "lsh_attention",
                "sinkhorn",
                "synthesizer",
                "linear_transformer",
                "performer",
                "nystromformer",
                "fnet",
                "s4d",
                "mamba2",
            ],
            quick=[
                "attention",
                "local_attention",
                "bigbird",
                "linformer",
                "linear_transformer",
                "s4d",
            ],
        )
    ],
    tasks=["listops", "shakespeare_plays", "retrieval", "fashion_mnist_pixels", "pathfinder"],
    probes=["quality", "floors", "parameters", "flops", "mixer_time", "mixer_memory"],
    claim=Claim(
        "on ListOps attention is more accurate than local attention",
        metric="accuracy",
        task="listops",
        a="mixer=attention",
        b="mixer=local_attention",
        by=0.02,
        source="Tay et al. 2020, arXiv:2011.04006, Table 1",
        published="36.37 % against 15.82 %",
    ),
    recipe=Recipe(learning_rate="tuned"),
    scales={
        "quick": Scale(
            tasks=[
                "listops",
                "movie_reviews",
                "retrieval",
                "fashion_mnist_patches",
                "pathfinder_small",
            ],
            dim=64,
            depth=2,
            length=64,
            steps=800,
            search_steps=200,
            batch=32,
            num_evaluations=4,
            seeds=3,
            lengths=[1024, 4096],
        ),
        "standard": Scale(
            tasks=["listops", "fashion_mnist_pixels"],
            dim=64,
            depth=2,
            length=1024,
            steps=2_000,
            search_steps=400,
            batch=32,
            seeds=3,
            warmup_steps=200,
            lengths=[1024, 4096],
            precision="bf16",
            gpus=1.0,
        ),
        "paper": Scale(
            tasks=["listops", "imdb", "retrieval", "fashion_mnist_pixels", "pathfinder"],
            dim=512,
            depth=6,
            length=2000,
            steps=50_000,
            batch=32,
            warmup_steps=4_000,
            lengths=[1024, 2048, 3072, 4096],
            gpus=1.0,
        ),
    },
)
