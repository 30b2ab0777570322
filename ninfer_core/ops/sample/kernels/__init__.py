"""Triton kernels of choices from logits: imported only where a CUDA device was selected, or by the interpreter."""
