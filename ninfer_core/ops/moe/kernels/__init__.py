"""Triton kernels of the expert layer: imported only where a CUDA device was selected, or by the interpreter."""
