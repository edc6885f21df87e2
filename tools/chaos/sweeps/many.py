"""An ablation of two hundred trials of about half a second."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Do many small trials come through whatever is done to them?",
    baseline=Model(mixer="attention", heads=2),
    axes=[vary("learning_rate", [0.001, 0.002, 0.003, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=40, batch=16, num_evaluations=3, seeds=20)
    },
)
