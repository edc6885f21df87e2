"""An ablation of short trials that resume from checkpoints."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does a run come through whatever is done to it?",
    baseline=Model(mixer="attention", heads=2),
    axes=[vary("learning_rate", [0.001, 0.03])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=18, batch=64, num_evaluations=6, seeds=1)
    },
)
