"""scripts/setup in a machine made of stand-ins: what it asks for, and that it does nothing twice."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOOLS = "bash env cat sed sha256sum cut basename dirname mkdir rm cp mv ln tail tee touch flock grep".split()  # noqa: SIM905

PYTHON = """#!/bin/sh
echo "python3 $*" >> "$CALLS"
case "$*" in
  --version) echo Python 3.11.2 ;;
  "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python ;;
  *"-m pip install"*) echo "Collecting uvloop>=0.22 (from tidelog)" ;;
esac
"""
RECORDED = '#!/bin/sh\necho "$(basename "$0") $*" >> "$CALLS"\n'


class Machine:
    """A checkout and a PATH of its own; `calls` is what was run of the stand-ins."""

    def __init__(self, folder: Path, *, user: int) -> None:
        self.checkout, self.path, self._calls = folder / "checkout", folder / "bin", folder / "calls"
        self.path.mkdir()
        poms = ("kafka/pom.xml", "kafka/zookeeper.xml", "kafka/spark.xml", "kafka/s3.xml", "kafka/connect.xml")
        clients = [
            path.relative_to(ROOT).as_posix()
            for folder in ("node", "go", "go/sarama", "go/franz-go", "rust")
            for path in (ROOT / "kafka/clients" / folder).iterdir()
            if path.is_file()
        ]
        client = ("kafka/franz-go/go.mod", "kafka/franz-go/go.sum", "kafka/franz-go/main.go")
        for name in ("scripts/setup", "constraints.txt", "pyproject.toml", *poms, *client, *clients):
            (self.checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.checkout / name)
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool))
        self.has("python3", PYTHON)
        self.has("id", f"#!/bin/sh\necho {user}\n")

    def has(self, name: str, script: str = RECORDED) -> None:
        (self.path / name).write_text(script, encoding="utf-8")
        (self.path / name).chmod(0o755)

    def setup(self, variant: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.path), "CALLS": str(self._calls)}
        self._calls.write_text("")
        command = [self.checkout / "scripts/setup", variant]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30, check=False)

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text(encoding="utf-8").splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path, user=0)


def test_an_unknown_variant_is_refused(machine):
    done = machine.setup("everything")
    assert done.returncode == 1
    assert "'everything' is not a variant; expected one of: base check demo bench test all" in done.stderr


def test_the_second_time_nothing_is_installed(machine):
    first = machine.setup("base")
    assert (first.returncode, first.stderr) == (0, "")
    assert "setup:   uvloop" in first.stdout
    assert any("-m pip install" in call for call in machine.calls)
    second = machine.setup("base")
    assert (second.returncode, second.stdout) == (0, "")
    assert not any("-m pip install" in call for call in machine.calls)


def test_a_changed_pin_installs_again(machine):
    machine.setup("base")
    with (machine.checkout / "constraints.txt").open("a", encoding="utf-8") as file:
        file.write("another==1\n")
    assert "base is ready" in machine.setup("base").stdout


def test_a_changed_lint_rule_installs_nothing(machine):
    machine.setup("base")
    file = machine.checkout / "pyproject.toml"
    file.write_text(
        file.read_text(encoding="utf-8").replace("line-length = 120", "line-length = 119"), encoding="utf-8"
    )
    assert machine.setup("base").stdout == ""


def test_root_gets_what_is_missing_from_debian(machine):
    machine.has("apt-get", RECORDED + f"ln -sf {shutil.which('true')} {machine.path}/java\n")
    assert machine.setup("demo").returncode == 0
    (call,) = [call for call in machine.calls if call.startswith("apt-get")]
    assert call.endswith("install -y -qq --no-install-recommends default-jre-headless")


def test_another_user_is_told_what_to_install(tmp_path):
    machine = Machine(tmp_path, user=1000)
    done = machine.setup("demo")
    assert done.returncode == 1
    assert done.stderr == "setup: missing packages; run: sudo apt-get install default-jre-headless\n"


def test_a_failed_installation_is_tried_again(machine):
    machine.has("python3", PYTHON.replace('echo "Collecting', "echo 'ERROR: no network'; exit 1; echo \"Collecting"))
    done = machine.setup("base")
    assert done.returncode == 1
    assert "no network" in done.stderr
    machine.has("python3", PYTHON)
    shutil.copy(machine.path / "python3", machine.checkout / ".venv/bin/python")
    assert machine.setup("base").returncode == 0


def test_jars_are_copied_once(machine):
    for name in ("java", "javac", "mvn", "kcat", "chromium", "ip", "openssl", "go"):
        machine.has(name)
    assert machine.setup("test").returncode == 0
    kafka, zookeeper, spark, s3 = [call for call in machine.calls if call.startswith("mvn")]
    assert "-f kafka/pom.xml" in kafka
    assert f"-DoutputDirectory={machine.checkout}/.cache/kafka.new/4.3.1/libs" in kafka
    assert "-f kafka/zookeeper.xml" in zookeeper
    assert f"-DoutputDirectory={machine.checkout}/.cache/zookeeper.new/3." in zookeeper
    assert "-f kafka/spark.xml" in spark
    assert "-f kafka/s3.xml" in s3
    for variant in ("test", "bench", "demo", "check", "base"):
        assert machine.setup(variant).stdout == ""


def test_the_clients_of_all_tests_are_built_once(machine):
    for name in ("java", "javac", "mvn", "kcat", "chromium", "ip", "openssl", "go", "npm", "node"):
        machine.has(name)
    lock = "echo 'source = \"the registry of this cargo\"' > Cargo.lock"
    machine.has("cargo", RECORDED + f'case "$1" in generate-lockfile) {lock} ;; esac\n')
    done = machine.setup("all")
    assert (done.returncode, done.stderr) == (0, "")
    assert "-f kafka/connect.xml" in next(call for call in machine.calls if "kafka/connect.xml" in call)
    assert len([call for call in machine.calls if call.startswith("go build")]) == 2
    assert len([call for call in machine.calls if call.startswith("npm ci --ignore-scripts")]) == 1
    assert "cargo build --locked" in machine.calls
    locked = (machine.checkout / ".cache/rust-client/Cargo.lock").read_text(encoding="utf-8")
    assert locked.count('source = "the registry of this cargo"\nchecksum = ') == locked.count("checksum = ") > 50
    for variant in ("all", "test", "base"):
        assert machine.setup(variant).stdout == ""
    assert not any(call.startswith(("cargo build", "npm", "go build")) for call in machine.calls)


def test_a_changed_client_is_built_again_and_nothing_else(machine):
    for name in ("java", "javac", "mvn", "kcat", "chromium", "ip", "openssl", "go", "npm", "node", "cargo"):
        machine.has(name)
    machine.has("cargo", RECORDED + "echo 'source = 1' > Cargo.lock\n")
    machine.setup("all")
    with (machine.checkout / "kafka/clients/go/sarama/main.go").open("a", encoding="utf-8") as file:
        file.write("// another\n")
    assert "all is ready" in machine.setup("all").stdout
    assert not any("pip install" in call for call in machine.calls)
    assert "go build" in " ".join(machine.calls)


def test_lock_files_name_no_registry():
    for name in ("node/package-lock.json", "go/go.sum", "rust/Cargo.lock"):
        text = (ROOT / "kafka/clients" / name).read_text(encoding="utf-8")
        assert not [word for word in ("resolved", "registry", "source =", "crates.io", "proxy.") if word in text], name
