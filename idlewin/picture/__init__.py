"""Pictures, where people would rather look than read. Plain data in, a PNG out.

The one importer of matplotlib, which the extra ``pictures`` brings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class PictureError(Exception):
    """The picture cannot be drawn; the message has the remedy."""


def canvas() -> Any:
    """What makes an empty figure. Raises PictureError where there is no matplotlib."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise PictureError(
            "a picture needs matplotlib, which is not installed; "
            "run: pip install 'idlewin[pictures]'"
        ) from None
    return Figure


def save(figure: Any, to: Path) -> None:
    """Write a figure as PNG. Raises PictureError."""
    try:
        figure.savefig(to, format="png")
    except OSError as error:
        raise PictureError(f"{to}: the picture cannot be written ({error.strerror})") from None
