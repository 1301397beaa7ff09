"""A package of somebody else, really installed, adds environments and a scheme, and runs the conformance suites."""

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parent.parent / "plugin"
PLUGIN_OPTION = [] if entry_points(group="pytest11", name="envweave") else ["-p", "envweave.testing.plugin"]
"""The metadata of a checkout may be older than the plugin."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the plugin into a folder of its own, and run Python with it."""
    source, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(PLUGIN, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    offline = ["--no-index", "--no-build-isolation", "--no-deps", "--target", str(target), str(source)]
    subprocess.run([*pip, *offline], check=True, capture_output=True)

    def run(*command, cwd=None):
        path = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
        env = {**os.environ, "PYTHONPATH": path}
        return subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True, check=False, cwd=cwd)

    return run


def evaluated(installed, expression):
    found = installed("-c", f"import json, envweave as ew; print(json.dumps({expression}))")
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout)


def raised(installed, id):
    code = f"import envweave as ew\ntry: ew.make({id!r})\nexcept ew.EnvWeaveError as e: print(type(e).__name__, e)"
    return installed("-c", code).stdout


def test_its_environments_are_found_by_bare_name_and_by_scheme(installed):
    assert evaluated(installed, "[ew.make(i).reset(seed=1).obs for i in ('demo-coin', 'ep://demo-coin')]") == [
        {"sides": 2},
        {"sides": 2},
    ]


def test_a_spec_is_as_good_as_a_class(installed):
    assert evaluated(installed, "ew.make('demo-spec').reset(seed=1).obs") == {"sides": 6}
    assert evaluated(installed, "ew.make('demo-spec', sides=4).reset(seed=1).obs") == {"sides": 4}


def test_its_version_is_honoured_or_refused(installed):
    assert evaluated(installed, "[ew.spec(f'demo-coin@{v}').version for v in ('1.2.3', '1.2', '1')]") == ["1.2.3"] * 3
    message = raised(installed, "demo-coin@1.3")
    assert message.startswith("VersionError")
    assert "version 1.2.3 of envweave-plugin-demo is installed" in message


def test_its_scheme_resolves_its_ids(installed):
    assert evaluated(installed, "ew.make('coin://5').reset(seed=1).obs") == {"sides": 5}
    assert raised(installed, "coin://many").startswith("EnvNotFoundError 'many' is not a number of sides")
    assert raised(installed, "coin://5@2").startswith("VersionError")


def test_a_broken_environment_of_a_plugin_hurts_nobody_else(installed):
    assert "this plugin is broken on purpose" in raised(installed, "demo-broken")
    listed = installed("-m", "envweave", "list", "--json")
    assert listed.returncode == 0, listed.stderr
    sources = {spec["id"]: spec["source"] for spec in json.loads(listed.stdout)}
    assert sources["demo-coin"] == "envweave-plugin-demo"
    assert sources["demo-broken"] == "broken"
    assert sources["counter"] == "envweave"


def test_a_name_like_one_of_its_own_is_suggested(installed):
    assert "did you mean 'demo-coin'?" in raised(installed, "demo-coim")


def test_its_environments_keep_the_contract(installed):
    checked = installed("-m", "envweave", "check", "demo-coin", "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("file", "options", "least"),
    [
        ("test_environment.py", [], 10),
        ("test_transport.py", [], 50),
        ("test_vector.py", [], 50),
        ("test_provider.py", [], 15),
        ("test_sandbox.py", ["-k", "file"], 15),  # the whole takes half a minute
    ],
)
def test_it_passes_the_conformance_suites(installed, tmp_path, file, options, least):
    shutil.copytree(PLUGIN / "tests", tmp_path / "tests")
    shutil.copy(PLUGIN / "pyproject.toml", tmp_path)
    done = installed("-m", "pytest", "-q", *PLUGIN_OPTION, f"tests/{file}", *options, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) >= least
