"""Loss curves one after the other as a small PNG: `python -m tools.tiny_model.picture OUT.png STAGE/losses.json ...`"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path


def draw_losses(losses: Sequence[float], path: Path) -> None:
    # Imported here: only a finished training needs it, and it takes a second.
    from matplotlib import pyplot

    smooth: list[float] = []
    for loss in losses:
        smooth.append(loss if not smooth else 0.97 * smooth[-1] + 0.03 * loss)
    figure, axes = pyplot.subplots(figsize=(6, 3.2), dpi=90)
    axes.plot(losses, linewidth=0.4, alpha=0.4, color="tab:blue")
    axes.plot(smooth, linewidth=1.2, color="tab:blue")
    axes.set(yscale="log", xlabel="step", ylabel="loss per learned token", title="ninfer-tiny")
    axes.grid(alpha=0.3, which="both")
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)


def main() -> None:
    path, *stages = map(Path, sys.argv[1:])
    curves = (curve for stage in stages for curve in json.loads(stage.read_text(encoding="utf-8")).values())
    draw_losses([loss for curve in curves for loss in curve], path)


if __name__ == "__main__":
    main()
