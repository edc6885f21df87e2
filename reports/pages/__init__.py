"""The sections of an ablation's page, and the overview of all ablations."""
