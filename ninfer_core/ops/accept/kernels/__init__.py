"""Triton kernels of acceptance: imported only where a CUDA device was selected, or by the interpreter."""
