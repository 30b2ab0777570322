"""What kernels of several operations share."""
