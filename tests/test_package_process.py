"""What is uploaded for a release: both archives pass twine's checks, and the wheel has all that the commands need."""

import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import tidelog

ROOT = Path(__file__).parent.parent
FILE = ROOT / "scripts" / "package.py"


def test_the_archives_are_ready_for_a_release(tmp_path):
    done = subprocess.run([sys.executable, FILE, tmp_path], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"tidelog-{tidelog.__version__}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        assert "tidelog=" in archive.read(f"{info}/entry_points.txt").decode().replace(" ", "")
    assert metadata["Version"] == tidelog.__version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert {"tidelog/grafana/tidelog.json", "tidelog/grafana/spark.json"} <= names
    expected = {str(file.relative_to(ROOT / "src")) for file in (ROOT / "src").rglob("*") if file.is_file()}
    assert not {name for name in expected - names if "__pycache__" not in name}
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/tidelog/__init__.py", "docs/guide.md"} <= inside


def test_links_become_absolute_once_there_is_a_repository():
    spec = spec_from_file_location("package", FILE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    text = "![a picture](docs/a.png), [a page](docs/a.md#part), [the web](https://a.b/), [here](#limits)"
    assert module.absolute_links(text, "https://host/me/it/") == (
        "![a picture](https://host/me/it/raw/HEAD/docs/a.png), [a page](https://host/me/it/blob/HEAD/docs/a.md#part), "
        "[the web](https://a.b/), [here](#limits)"
    )
