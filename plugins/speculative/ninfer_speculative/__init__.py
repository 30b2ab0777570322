"""Speculative backends of ninfer: mtp, dflash, dflash2."""
