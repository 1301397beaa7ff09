"""A fresh checkout under uv: the commands of the documents as they are printed, and what the extras bring."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.need import need

ROOT = Path(__file__).parent.parent.parent
FILES = ("pyproject.toml", "README.md", "LICENSE", "src", "docker")

pytestmark = pytest.mark.timeout(600)  # the first one downloads packages


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    for name in FILES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def find_uv():
    try:
        from uv import find_uv_bin
    except ModuleNotFoundError:
        return shutil.which("uv") or need("uv", "there is no uv: pip install uv")
    return find_uv_bin()


def uv(*arguments, cwd, **variables):
    env = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    command = [find_uv(), *arguments]
    return subprocess.run(command, cwd=cwd, env=env | variables, capture_output=True, text=True, check=False)


def test_the_training_run_works_as_it_is_printed(checkout):
    done = uv("run", "-m", "envweave.examples.train_lineworld_pg", "--episodes", "20", "--run-dir", "r", cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert (checkout / "r" / "metrics.png").read_bytes().startswith(b"\x89PNG")


def test_every_extra_of_a_checkout_can_be_resolved(checkout):
    for extra in ("all", "dev", "dev-mcp", "mcp"):
        done = uv("sync", "--dry-run", "--extra", extra, cwd=checkout)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("extra", "id", "options"),
    [
        ("docker", "docker://nowhere", {"DOCKER_HOST": "unix:///nowhere/docker.sock"}),
        ("kubernetes", "k8s://nowhere", {"KUBECONFIG": "/nowhere/config"}),
    ],
)
def test_one_extra_brings_all_that_its_backend_needs(checkout, extra, id, options):
    code = (
        "import envweave as ew\n"
        f"try: ew.make({id!r}).reset()\n"
        "except ew.errors.ProviderError as error: print(type(error).__name__)\n"
    )
    isolated = ("run", "--isolated", "--no-default-groups", "--extra", extra)
    done = uv(*isolated, "python", "-c", code, cwd=checkout, **options)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Provider")
