"""Triton kernels of attention of a block: imported only where a CUDA device was selected, or by the interpreter."""
