"""An ablation of one trial, otherwise as `resumable`."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does one trial come through whatever is done to it?",
    baseline=Model(mixer="attention", heads=2),
    axes=[vary("learning_rate", [0.001])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=18, batch=64, num_evaluations=6, seeds=1)
    },
)
