"""Block drafters, DFlash and DFlash2: one pass over an anchor and mask tokens drafts a whole block."""
