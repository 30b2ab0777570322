from __future__ import annotations

import subprocess
import sys

from ninfer_core.program.start import settle_environment


def test_what_the_user_has_set_stands() -> None:
    environment = {"OMP_WAIT_POLICY": "active"}
    settle_environment("cpu", environment)
    settle_environment("cuda", environment)
    assert environment == {
        "OMP_WAIT_POLICY": "active",
        "PYTORCH_ALLOC_CONF": "expandable_segments:True",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_the_way_in_comes_before_torch() -> None:
    code = "import sys, ninfer_core.program.start, ninfer_core.engine.process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
