"""Triton kernels of paged attention. Imported only where a CUDA route was selected: not every machine has Triton."""
