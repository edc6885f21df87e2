"""An ablation of trials that sleep as they train, to be stopped in the middle."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does a trial come through that is stopped in the middle?",
    baseline=Model(mixer="slow_mixers:Slow", position="none"),
    axes=[vary("learning_rate", [0.001, 0.01])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=30, batch=100, num_evaluations=3, seeds=1)
    },
)
