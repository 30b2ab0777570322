"""The device operations of the core, one package each; a package's docstring is the contract of its operation.
`workspace`, alone without torch, has what plans must know of them.

All take and return tensors of one device, never wait for it (no value is read back to the host), and change only
what their contract names: what pools hold is written in place, through indices that are tensors themselves. So a
sequence of them can be captured once and replayed.
"""
