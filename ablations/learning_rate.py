"""Which learning rate suits which mixer, on which task?

A comparison at one rate favours the mixers that the rate suits. Arora, Eyuboglu et al. 2023
(Zoology, arXiv:2312.04927) try four rates, 1e-4 to 1e-2, for every mixer and width (the public
settings of figure 2). Wortsman et al. 2023 (arXiv:2309.14322, section 3.1): small Transformers,
too, end worse at high rates. Here each mixer gets the same rates, steps and seeds on a task, and
is judged on validation data. It makes the table that learning_rate="tuned" reads.
Expected: one rate does not serve all; recurrences and convolutions bear higher ones.

A short training favours high rates, so a scale's rates are for trainings about as long. At quick
(200 steps, 64 tokens, one seed) a language model does best at 0.01, attention too, against the
claim; on patches 0.01 is the best for recurrences and FNet, and the worst for attention. Where
nothing is learnt luck decides: on the plays, and on MQAR for recurrences and convolutions.
Fashion-MNIST by pixels is too dear to be tried: it takes the rates of its patches.
Cost: quick about 9 minutes on two cores; standard some hours on one GPU; paper a cluster.
"""

from suite import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="Which learning rate suits which mixer, on which task?",
    baseline=Model(mixer="attention", heads=2, position="sinusoidal"),
    axes=[
        vary("mixer", [
            "attention", "local_attention", "rnn", "gru", "lstm", "conv", "dilated_conv",
            "gated_conv", "linformer", "performer", "linear_transformer", "fnet", "mlp_mixer",
        ]),
        vary("learning_rate", [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2], quick=[1e-3, 3e-3, 1e-2]),
    ],
    combine="cross",
    tasks=[
        "shakespeare_characters", "fashion_mnist_patches", "mqar_small", "listops",
        "shakespeare_plays",
    ],
    probes=["validation", "parameters"],
    claim=Claim(
        "as a language model, attention is better at a rate of 0.003 than at 0.01",
        metric="validation_bits_per_character",
        a="mixer=attention, learning_rate=0.003",
        b="mixer=attention, learning_rate=0.01",
        by=0.02,
        source="Wortsman et al. 2023, arXiv:2309.14322, section 3.1",
        published="at high rates small Transformers end worse, without normalised queries and keys",
    ),
    recipe=Recipe(schedule="cosine"),
    scales={
        "quick": Scale(
            dim=64, depth=2, length=64, steps=200, batch=16, learning_rate=3e-3,
            num_evaluations=1, seeds=1,
        ),
        "standard": Scale(
            dim=256, depth=6, length=256, steps=4_000, batch=64, learning_rate=3e-3,
            warmup_steps=400, num_evaluations=1, seeds=1, gpus=1.0,
        ),
        "paper": Scale(
            dim=512, depth=6, length=512, steps=20_000, batch=128, learning_rate=3e-3,
            warmup_steps=1_000, num_evaluations=1, seeds=3, gpus=1.0,
        ),
    },
)  # fmt: skip
