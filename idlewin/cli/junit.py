"""JUnit's XML, as a CI reads it."""

from __future__ import annotations

import re
from datetime import timedelta
from xml.etree import ElementTree as ET

#: What XML cannot hold.
_CONTROL = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def case(suite: ET.Element, of: str, name: str, seconds: float = 0.0) -> ET.Element:
    """A case in a suite."""
    return ET.SubElement(
        suite, "testcase", classname=clean(of), name=clean(name), time=f"{seconds:.3f}"
    )


def counts(suite: ET.Element, *, failures: int, errors: int) -> None:
    """Have a suite say how many of its cases are what."""
    took = sum((timedelta(seconds=float(case.get("time", 0))) for case in suite), timedelta())
    suite.set("tests", str(len(suite)))
    suite.set("failures", str(failures))
    suite.set("errors", str(errors))
    suite.set("time", f"{took.total_seconds():.3f}")


def clean(text: str) -> str:
    """Text that XML can hold."""
    return _CONTROL.sub("\ufffd", text)


def document(root: ET.Element) -> str:
    """All of it as text."""
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode")
