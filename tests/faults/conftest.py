from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ninfer_core.testing.clients_under_fault import SLOW_ANSWERS
from ninfer_core.testing.tiny import write_tiny_artifact


@pytest.fixture(scope="session")
def slow_server(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """Arguments of a server that serves slow scripted answers, four at a time."""
    folder = tmp_path_factory.mktemp("slow")
    artifact = write_tiny_artifact(folder / "tiny.ninfer")
    script = folder / "script.json"
    script.write_bytes(msgspec.json.encode([*SLOW_ANSWERS, {"content": "Hello."}]))
    return (
        *server_files(artifact, script),
        "--max-concurrency",
        "4",
        "--kv-capacity",
        "auto",
        "--prefill-chunk",
        "128",
    )


def server_files(artifact: Path, script: Path) -> tuple[str, ...]:
    return (str(artifact), "--scripted", str(script))
