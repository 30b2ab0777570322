"""Triton kernels of linear layers: imported only where a CUDA device was selected, or by the interpreter."""
