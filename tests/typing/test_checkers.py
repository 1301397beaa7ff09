"""Type checkers accept and refuse what they should in the code of users: `samples` says which lines are errors."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import envweave
from support.need import need

SAMPLES = sorted((Path(__file__).parent / "samples").glob("*.py"))
SOURCE = str(Path(envweave.__file__).parent.parent)
MARK = "# error"

pytestmark = pytest.mark.timeout(400)


def mypy(folder):
    """The errors in each file of a folder: name and line, with the message."""
    (folder / "mypy.ini").write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    done = run([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "."], folder)
    found = re.findall(r"^([^\s:]+):(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert found, done.stdout + done.stderr
    return {(Path(name).name, int(line)): message for name, line, message in found}


def pyright(folder):
    command = shutil.which("pyright", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}")
    if command is None:
        need("pyright", "there is no `pyright`: pip install 'pyright[nodejs]'")
    rules = {"typeCheckingMode": "strict", "reportUnusedExpression": False, "extraPaths": [SOURCE]}
    (folder / "pyrightconfig.json").write_text(json.dumps(rules))
    done = run([command, "--outputjson", "--pythonpath", sys.executable, "-p", "."], folder)
    if not done.stdout.startswith("{"):
        need("pyright", f"pyright does not run here: {done.stderr.strip()[-300:]}")
    found = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    return {(Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"] for each in found}


def run(command, folder):
    variables = {**os.environ, "MYPYPATH": SOURCE, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=variables, timeout=300)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_marked_lines_of_the_samples_are_refused_and_no_others(check, tmp_path):
    expected = set()
    for sample in SAMPLES:
        lines = sample.read_text().splitlines()
        expected |= {(sample.name, number) for number, line in enumerate(lines, 1) if line.endswith(MARK)}
        shutil.copy(sample, tmp_path)
    found = check(tmp_path)
    assert {place: found[place] for place in found.keys() - expected} == {}
    assert expected - found.keys() == set()
