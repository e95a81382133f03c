"""Notebooks run from start to end, and are kept without outputs, which would grow old."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def of_code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_outputs(path):
    cells = of_code(nbformat.read(path, as_version=4))

    assert [(cell.outputs, cell.execution_count) for cell in cells] == [([], None)] * len(cells)


@pytest.mark.parametrize(("name", "pictures"), [("forecasts", 4)])
def test_it_runs_from_start_to_end_and_each_picture_is_drawn(name, pictures, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (path,) = [path for path in NOTEBOOKS if path.stem == name]
    notebook = nbformat.read(path, as_version=4)

    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(path.parent))

    outputs = [output for cell in of_code(notebook) for output in cell.outputs]
    assert [o.text for o in outputs if o.output_type == "stream" and o.name == "stderr"] == []
    assert sum("image/png" in output.get("data", {}) for output in outputs) == pictures
