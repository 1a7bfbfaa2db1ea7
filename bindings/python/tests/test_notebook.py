"""The notebook among the examples runs, and shows what it is checked in with. MILLPOND_UPDATE=1 writes its outputs anew."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("IPython")
from IPython.core.interactiveshell import InteractiveShell  # noqa: E402

NOTEBOOK = Path(__file__).parents[3] / "examples" / "doctor.ipynb"


def shown(shell: InteractiveShell, count: int, source: str) -> list:
    """What a cell shows: its last value, in every form that a notebook may choose from."""
    result = shell.run_cell(source)
    result.raise_error()
    if result.result is None:
        return []
    data, metadata = shell.display_formatter.format(result.result)
    lines = {form: text.splitlines(True) for form, text in data.items()}
    return [{"data": lines, "execution_count": count, "metadata": metadata, "output_type": "execute_result"}]


def test_the_notebook_shows_the_report(monkeypatch):
    monkeypatch.chdir(NOTEBOOK.parent)
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    shell = InteractiveShell.instance()
    # As a kernel has it; a terminal wants plain text alone.
    shell.display_formatter.active_types = ["text/plain", "text/html"]
    wanted = json.loads(json.dumps(notebook))
    for cell in wanted["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = shown(shell, cell["execution_count"], "".join(cell["source"]))
    if os.environ.get("MILLPOND_UPDATE"):
        NOTEBOOK.write_text(json.dumps(wanted, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    assert notebook == wanted
    report = "".join(notebook["cells"][1]["outputs"][0]["data"]["text/html"])
    assert "Fragmentation ② pinned inside segments" in report and "export PYTORCH_CUDA_ALLOC_CONF" in report
