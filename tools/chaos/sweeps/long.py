"""An ablation of trials of 20 seconds and more."""

from suite import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="What does safety cost a trial that lasts?",
    baseline=Model(mixer="attention", heads=4),
    axes=[vary("learning_rate", [0.001])],
    tasks=["shakespeare_characters"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=128, depth=4, length=128, steps=80, batch=16, num_evaluations=4, seeds=1)
    },
)
