"""Docker build contexts and the wheels in them."""

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import pytest

from envweave.errors import UsageError
from envweave.images.context import folder_digest, write_base_context, write_env_context
from envweave.images.target import BuildTarget
from envweave.images.wheel import editable_project, pack_distribution, pack_package

ROOT = Path(__file__).parent.parent.parent.parent


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_base_context_contains_a_wheel_of_the_running_envweave(tmp_path):
    arguments = write_base_context(tmp_path)
    (wheel,) = (tmp_path / arguments["SOURCE"]).iterdir()
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        inside = set(archive.namelist())
        (about,) = {name.partition("/")[0] for name in inside if ".dist-info/" in name}
        assert b"lineworld = envweave.envs.lineworld:LineWorldEnv" in archive.read(f"{about}/entry_points.txt")
    package = {f"envweave/{name}" for name in names(ROOT / "src" / "envweave") if "__pycache__" not in name}
    assert package <= inside
    assert {"envweave/images/docker/env/Dockerfile", "envweave/images/pyproject.toml"} <= inside
    assert {"docker/base/Dockerfile", "docker/base/requirements.py", "pyproject.toml"} <= names(tmp_path)


def test_the_same_source_has_the_same_digest(tmp_path):
    first = write_base_context(tmp_path / "first")
    assert write_base_context(tmp_path / "second") == first
    assert folder_digest(tmp_path / "first") == folder_digest(tmp_path / "second")


def test_the_ca_bundle_is_sent_and_does_not_change_the_digest(tmp_path):
    bundle = tmp_path / "bundle"
    bundle.write_text("trusted")
    assert write_base_context(tmp_path / "with", bundle) == write_base_context(tmp_path / "without")
    assert (tmp_path / "with" / "ca.pem").read_text() == "trusted"


def test_a_built_in_environment_needs_no_further_package(tmp_path):
    arguments = write_env_context(tmp_path, BuildTarget("echo", "echo:latest"))
    assert arguments == {"PACKAGES": "packages", "ENV_ID": "echo"}
    assert (tmp_path / "packages" / "requirements.txt").read_text() == ""


def test_a_project_is_sent_without_caches_and_secrets(tmp_path):
    project = tmp_path / "project"
    for name in (".git/config", ".venv/bin/python", "game/__init__.py", "game/__pycache__/x.pyc", ".env", "game/a.txt"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (project / "gone").symlink_to("nowhere")
    (project / "pyproject.toml").write_text('[project]\nname = "game"\ndependencies = ["numpy>=2", "rich"]\n')
    write_env_context(tmp_path / "context", BuildTarget("game", "game:latest", project=project))
    sent = tmp_path / "context" / "packages"
    assert names(sent / "project") == {"pyproject.toml", "game/__init__.py", "game/a.txt"}
    assert (sent / "requirements.txt").read_text() == "envweave\nnumpy>=2\nrich\n"


def test_an_installed_distribution_is_packed_into_an_installable_wheel(tmp_path):
    wheel = pack_distribution(distribution("pluggy"), tmp_path / "packed")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]
    subprocess.run([*install, str(tmp_path / "site"), str(wheel)], check=True)
    (found,) = {path.name for path in (tmp_path / "site").glob("*.dist-info")}
    assert found == f"pluggy-{distribution('pluggy').version}.dist-info"
    code = "import pluggy; print(pluggy.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(tmp_path / "site")}, capture_output=True, text=True
    )
    assert str(tmp_path / "site") in done.stdout


def test_a_wheel_with_compiled_code_keeps_its_tags(tmp_path):
    wheel = pack_distribution(distribution("pydantic_core"), tmp_path)
    assert f"cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-" in wheel.name


def test_a_distribution_without_a_file_list_cannot_be_packed(tmp_path):
    about = tmp_path / "odd-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    with pytest.raises(UsageError, match="the files of odd 1 are unknown"):
        pack_distribution(PathDistribution(about), tmp_path)


def test_an_editable_install_has_a_project_folder(tmp_path):
    about = tmp_path / "odd-1.dist-info"
    about.mkdir()
    assert editable_project(PathDistribution(about)) is None
    (about / "direct_url.json").write_text('{"url": "file:///a%20b/c", "dir_info": {"editable": true}}')
    assert editable_project(PathDistribution(about)) == Path("/a b/c")
    (about / "direct_url.json").write_text('{"url": "file:///a%20b/c", "dir_info": {}}')
    assert editable_project(PathDistribution(about)) is None


def test_an_installed_envweave_writes_the_same_context_as_a_checkout(tmp_path):
    source, site, sent = tmp_path / "source", tmp_path / "site", tmp_path / "sent"
    for name in ("docker", "src"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps"]
    subprocess.run([*install, "--target", str(site), str(source)], check=True)
    shutil.rmtree(source)
    code = (
        "import sys; from pathlib import Path; from envweave.images.context import write_base_context;"
        "print(write_base_context(Path(sys.argv[1]))['SOURCE'])"
    )
    env = {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code, str(sent)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    write_base_context(tmp_path / "here")
    assert names(sent) == names(tmp_path / "here")
    wheels = [next((folder / "source").iterdir()) for folder in (sent, tmp_path / "here")]
    inside = [{name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info" not in name} for wheel in wheels]
    assert inside[0] == inside[1]


def test_a_package_is_packed_with_extra_files(tmp_path):
    package = tmp_path / "envweave"
    package.mkdir()
    (package / "__init__.py").write_text("x = 1\n")
    wheel = pack_package(distribution("envweave"), package, {"envweave/more.txt": package / "__init__.py"}, tmp_path)
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("envweave/more.txt") == b"x = 1\n"
