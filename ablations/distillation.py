"""What does a vision transformer gain from a convolutional teacher, and by which token?

Touvron et al. 2021 (DeiT, arXiv:2012.12877, section 5.2 and Table 3): on ImageNet DeiT-Ti has
72.2 % without a teacher and 74.5 with a second token and head, which learn a teacher's likeliest
class (hard); its probabilities (soft) are worth less, and a convolutional network teaches better
than a transformer. Here: clothes of 28 x 28 pixels in 16 patches; the teacher is a residual network
of 8, 16 and 32 channels, trained first on the same images with the same seed; `deit` has the
second token, which without a teacher learns the targets, as the first one does.

Expected: a teacher raises the accuracy; hard and soft labels, and the second token, make no
significant difference.

Found at quick: inconclusive. Teachers have an accuracy of 0.88; ViT alone 0.867, with a second
token and hard labels 0.870 (0.3 points more, -0.3 to 0.9, five seeds), with soft labels 0.875. A
first run with 3,000 steps was stopped: ViT was too near to logistic regression (0.847). About 14
seeds would settle whether the gain is half a point, in three hours (`--seeds 14`).

Cost: quick about 60 minutes on two cores; standard 19 on one H100, as planned.
"""

from bakeoff import Ablation, Claim, Model, Recipe, Scale, vary

ABLATION = Ablation(
    question="What does a vision transformer gain from a convolutional teacher?",
    baseline=Model("vit", mixer="attention", heads=4, position="learned", patch=7),
    teacher=Model("resnet", blocks="1-1-1", dim=8),
    axes=[
        vary("architecture", ["vit", "deit"]),
        vary("distillation", ["none", "soft", "hard"]),
    ],
    combine="cross",
    tasks=["fashion_mnist_images"],
    probes=["quality", "floors", "parameters", "flops"],
    words={
        "architecture=vit": "ViT",
        "architecture=deit": "DeiT",
        "distillation=none": "no teacher",
        "distillation=soft": "soft labels of the teacher",
        "distillation=hard": "hard labels of the teacher",
    },
    claim=Claim(
        "a distillation token that learns hard labels raises accuracy",
        metric="accuracy",
        a="architecture=deit, distillation=hard",
        b="architecture=vit, distillation=none",
        by=0.005,
        source="Touvron et al. 2021, arXiv:2012.12877, Table 3",
        published="74.5 % with a distillation token and hard labels, 72.2 % without (DeiT-Ti)",
    ),
    recipe=Recipe(learning_rate="tuned", weight_decay=0.05, flip=True),
    scales={
        "quick": Scale(
            dim=64,
            depth=3,
            length=784,
            steps=4_000,
            search_steps=2_000,
            batch=32,
            teacher_steps=3_000,
            teacher_learning_rate=0.002,
            num_evaluations=5,
            seeds=5,
        ),
        "standard": Scale(
            dim=192,
            depth=6,
            length=784,
            steps=10_000,
            batch=64,
            warmup_steps=400,
            precision="bf16",
            gpus=1.0,
        ),
    },
)
