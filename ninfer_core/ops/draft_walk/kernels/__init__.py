"""Triton kernels of the walk: imported only where a CUDA device was selected, or by the interpreter."""
