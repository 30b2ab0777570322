"""What kernels of several operations share; an operation takes no other operation's kernels."""
