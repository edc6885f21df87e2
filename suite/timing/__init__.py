"""Interleaved timing with confidence intervals; on a GPU of CUDA graphs, and of launches."""
