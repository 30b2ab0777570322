"""The Triton kernels of the mixer. Imported only when a CUDA route was selected."""
