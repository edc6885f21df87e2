"""The questions: one declarative file each; a docstring and one ABLATION."""
