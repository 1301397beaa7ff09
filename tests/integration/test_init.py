"""The project that `envweave init` writes: checked, tested, type-checked, installed, served."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import envweave as ew
from envweave.client.env_client import connect


def run(*command, cwd=None, path="", **options):
    found = os.pathsep.join(filter(None, [path, os.environ.get("PYTHONPATH", "")]))
    env = {**os.environ, "PYTHONPATH": found}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        **options,
    )


def envweave(*arguments, **options):
    return run("-m", "envweave", *arguments, **options)


@pytest.fixture(scope="module", params=["sea_battle", "sea-battle"])
def project(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("init")
    done = envweave("init", request.param, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "next: cd" in done.stdout
    return folder / request.param


def test_its_environment_follows_the_contract(project):
    done = envweave("check", "pkg://sea_battle:SeaBattleEnv", "--json", cwd=project)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["findings"] == []


def test_its_own_tests_pass(project):
    done = run("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", cwd=project)
    assert done.returncode == 0, done.stdout
    assert "4 passed" in done.stdout


def test_ruff_accepts_it(project):
    ruff = shutil.which("ruff", path=os.path.dirname(sys.executable)) or shutil.which("ruff")
    if ruff is None:
        pytest.skip("ruff is not installed")
    rules = ["--isolated", "--line-length", "120", "--select", "A,B,C4,E,F,I,N,PIE,PT,RET,RUF,SIM,UP,W"]
    done = subprocess.run([ruff, "check", *rules, "."], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_mypy_accepts_it(tmp_path):
    mypy = pytest.importorskip("mypy.api")
    assert envweave("init", "sea_battle", cwd=tmp_path).returncode == 0
    project = tmp_path / "sea_battle"
    options = ["--config-file", str(project / "pyproject.toml"), "--cache-dir", os.devnull, "--follow-imports=silent"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MYPYPATH", os.pathsep.join([str(Path(ew.__file__).parent.parent), str(project)]))
        report, errors, code = mypy.run([*options, str(project / "sea_battle.py"), str(project / "tests")])
    assert code == 0, report + errors


def test_an_installed_project_is_found_by_its_id(project, tmp_path):
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(project, source)
    install = ("-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps", "--target")
    assert run(*install, str(site), str(source)).returncode == 0
    listed = json.loads(envweave("list", "--json", path=str(site)).stdout)
    (found,) = [spec for spec in listed if spec["id"] == project.name]
    assert found["source"] == "sea-battle"
    assert envweave("check", project.name, path=str(site)).returncode == 0


def test_it_serves(project):
    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "envweave", "serve", "pkg://sea_battle:SeaBattleEnv", "--port", "0"]
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE, text=True, env=env)
    try:
        url = re.search(r"http://\S+", process.stdout.readline())[0]
        with connect(url) as remote:
            result, low, high = remote.reset(seed=1), 1, 100
            while not result.done:
                guess = (low + high) // 2
                result = remote.step({"guess": guess})
                low, high = (guess + 1, high) if result.obs.feedback == "higher" else (low, guess - 1)
            assert result.reward == 1.0
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_docstrings_reach_the_agent(project):
    done = envweave("info", "pkg://sea_battle:SeaBattleEnv", "--json", cwd=project)
    found = json.loads(done.stdout)
    assert found["action_schema"]["description"] == "Guess the hidden number."


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (("json",), "'json' would shadow a module of the standard library"),
        (("2048",), "'2048' is not a valid module name"),
        (("game", "--path", "/proc/nowhere"), "cannot write '/proc/nowhere': no such file or directory"),
        (("game", "--path", "/etc/passwd/game"), "cannot write '/etc/passwd/game': not a directory"),
        (("game", "--path", "/etc/passwd"), "'/etc/passwd' is a file"),
        (("game", "--path", "/etc"), "'/etc' is not empty"),
    ],
)
def test_an_error_is_two_lines_and_leaves_no_files(tmp_path, arguments, first):
    done = envweave("init", *arguments, cwd=tmp_path)
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert lines[0] == first
    assert len(lines) == 2
    assert lines[1].startswith("hint: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can change the user")
def test_a_folder_without_write_permission_is_an_error(tmp_path):
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o055 != 0o055 and "pytest" in str(folder):
            folder.chmod(0o755)
    code = (
        "from pathlib import Path; from envweave.scaffold.names import derive_names;"
        "from envweave.scaffold.project import write_project; from envweave.errors import UsageError; import os, sys;"
        "import importlib.readers  # the other user may not be able to read the files of Python\n"
        "names = derive_names('game'); os.setuid(65534)\n"
        "try: write_project(names, Path(sys.argv[1]))\n"
        "except UsageError as error: print(error.message)"
    )
    done = run("-c", code, str(tmp_path / "game"))
    assert done.stdout.strip() == f"cannot write '{tmp_path}/game': permission denied", done.stderr
    assert list(tmp_path.iterdir()) == []


def test_of_two_concurrent_runs_one_fails(tmp_path):
    command = [sys.executable, "-m", "envweave", "init", "game"]
    both = [subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    ends = [(process.communicate(timeout=60)[1], process.returncode) for process in both]
    assert sorted(code for _, code in ends) == [0, 2], ends
    assert len([path for path in (tmp_path / "game").rglob("*") if path.is_file()]) == 5
