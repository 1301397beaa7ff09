"""The tasks that ship with envweave, with their tests and solutions, cannot be read by code in the sandbox."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import envweave
from support.need import need

PROGRAM = """
import json, sys
from pathlib import Path
import envweave
from envweave.sandbox import Sandbox

package = Path(envweave.__file__).parent
assert (package / "envs" / "data" / "programming.jsonl").read_text()
options = {} if sys.argv[1] == "namespace" else {"python": sys.argv[2]}
with Sandbox(isolation=sys.argv[1], readable=[str(package.parent)], **options) as sandbox, sandbox.start() as session:
    read = session.run(f"open({str(package / 'envs' / 'data' / 'programming.jsonl')!r}).read()")
    linked = session.run(f"open({str(package.parent / 'link' / 'envs' / 'data' / 'programming.jsonl')!r}).read()")
    beside = session.run(f"len(open({str(package / 'errors.py')!r}).read()) > 100")
    listed = session.run(f"import os; 'envs' in os.listdir({str(package)!r})")
    twin = session.run("1").return_value
    if sys.argv[1] == "namespace":
        with session.fork() as fork:
            twin = fork.run(f"open({str(package / 'envs' / 'data' / 'programming.jsonl')!r}).read()").exception.type
print(json.dumps([read.exception and read.exception.type, linked.exception and linked.exception.type,
                  beside.return_value, listed.return_value, twin]))
"""


@pytest.fixture
def installed(tmp_path):
    """A folder of packages, readable by sessions, with envweave among them, as `pip install envweave` makes it."""
    site = tmp_path / "site-packages"
    shutil.copytree(Path(envweave.__file__).parent, site / "envweave", ignore=shutil.ignore_patterns("__pycache__"))
    (site / "link").symlink_to("envweave")
    for folder in (tmp_path, *tmp_path.parents):  # sessions run as nobody if the tests run as root
        if os.access(folder, os.W_OK) and folder != folder.parent and folder.stat().st_uid == os.getuid():
            folder.chmod(folder.stat().st_mode | 0o055)
    return site


@pytest.mark.parametrize(
    ("isolation", "errors", "in_a_fork"),
    [
        ("namespace", ["FileNotFoundError"] * 2, "FileNotFoundError"),
        ("landlock", ["PermissionError"] * 2, 1),
    ],
)
def test_the_tasks_of_an_installed_envweave_cannot_be_read(sandbox, installed, isolation, errors, in_a_fork):
    python = sys.executable if os.getuid() else "/usr/bin/python3"  # root's own may be closed to others
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, isolation, python],
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    if "IsolationError" in done.stderr:
        need("namespace", done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [*errors, True, True, in_a_fork]
