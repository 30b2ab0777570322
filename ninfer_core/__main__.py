"""`python -m ninfer_core` is the `ninfer` command."""

from __future__ import annotations

import sys

from ninfer_core.cli.main import main

sys.exit(main())
