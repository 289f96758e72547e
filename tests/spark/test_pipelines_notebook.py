"""The notebook in examples runs from top to bottom, in a kernel of its own, and has its plots."""

import sys
from pathlib import Path

import pytest

from tests.spark.settings import SHORT_JVM

NOTEBOOK = Path(__file__).parent.parent.parent / "examples" / "flights.ipynb"
PLOTS = 3


@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch):
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from nbclient import NotebookClient

    monkeypatch.setenv("TIDELOG_NOTEBOOK_DAYS", "3")
    monkeypatch.setenv("JDK_JAVA_OPTIONS", SHORT_JVM)
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    assert KernelSpecManager().get_kernel_spec("python3").argv[0] in (sys.executable, "python", "python3")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    NotebookClient(
        notebook, timeout=800, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == PLOTS
