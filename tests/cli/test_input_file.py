from __future__ import annotations

from pathlib import Path

import click
import pytest

from ninfer_core.cli.input_file import LARGEST_INPUT_BYTES, read_input


def test_a_device_without_an_end_is_refused() -> None:
    endless = Path("/dev/zero")
    with pytest.raises(click.BadParameter, match=f"/dev/zero: it is over {LARGEST_INPUT_BYTES} bytes"):
        read_input(endless, "--text")


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(click.BadParameter, match="gone: No such file or directory"):
        read_input(tmp_path / "gone", "--text")
    (tmp_path / "text").write_bytes(b"hi")
    assert read_input(tmp_path / "text", "--text") == b"hi"
