"""The code in the documents runs, and their statements about the code are true."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
ALL_PAGES = [*PAGES, *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]


def blocks(language):
    for page in PAGES:
        fenced = re.compile(rf"^```{language}\n(.*?)^```", re.DOTALL | re.MULTILINE)
        for number, block in enumerate(fenced.findall(page.read_text())):
            yield pytest.param(block, id=f"{page.name}-{number}")


@pytest.mark.parametrize("block", list(blocks("python")))
def test_every_python_block_runs_by_itself(block, tmp_path):
    (tmp_path / "block.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "-W", "error", "block.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def named_images(docker_engine, env_image):
    """The images that the documents name, as `envweave build` and `docker build` create them."""
    from support.engine import connect

    with closing(connect(docker_engine)) as client:
        for id, name in (("echo", "echo-env"), ("lineworld", "envweave-lineworld")):
            client.images.get(env_image(id)).tag(name, "latest")


@pytest.mark.parametrize("block", list(blocks("python docker")))
def test_every_block_with_containers_runs_by_itself(block, tmp_path, named_images):
    test_every_python_block_runs_by_itself(block, tmp_path)


def test_the_readme_names_only_make_targets_and_verbs_that_exist():
    text = (ROOT / "README.md").read_text()
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z]+)\b(?= |`)", text)) <= targets
    typed = "".join(re.findall(r"```bash\n(.*?)```", text, re.DOTALL))
    verbs = set(re.findall(r"^envweave ([a-z]+)", typed, re.MULTILINE))
    shown = subprocess.run(
        [sys.executable, "-m", "envweave", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert verbs
    assert all(f" {verb} " in shown for verb in verbs)


def test_every_link_between_documents_has_a_target():
    for page in ALL_PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_the_readme_links_every_page():
    text = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES[1:] if f"(docs/{page.name})" not in text] == []


def test_lines_outside_of_tables_have_at_most_120_characters():
    long = [
        f"{page.name}:{number}"
        for page in ALL_PAGES
        for number, line in enumerate(page.read_text().splitlines(), 1)
        if len(line) > 120 and not line.startswith("|")
    ]
    assert long == []


def test_contributing_names_every_package_and_only_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    source = ROOT / "src/envweave"
    named = [name for name in re.findall(r"(?<![\w/])(?:[a-z]+/)+\w+\.py", text) if not name.startswith("tests/")]
    assert len(named) > 30
    assert [name for name in named if not (source / name).exists()] == []
    layers = text[text.index("## Layers") : text.index("## The path of a step")]
    packages = [path.parent.name + "/" for path in source.glob("*/__init__.py")]
    modules = [path.name for path in source.glob("*.py") if path.name != "__main__.py"]
    assert [name for name in (*packages, *modules) if name not in layers] == []


def test_every_request_kind_and_end_reason_is_documented():
    from typing import get_args

    from envweave.requests import KINDS, EndReason

    text = (ROOT / "docs" / "contract.md").read_text()
    assert all(f"`{word}`" in text for word in (*KINDS, *get_args(EndReason)))


def test_every_claim_of_the_sandbox_names_an_existing_test():
    text = (ROOT / "src/envweave/sandbox/process.py").read_text()
    covered = text[text.index("Covered:") : text.index("Not covered:")]
    named = re.findall(r"^    \S.*  (\w+)$", covered, re.MULTILINE)
    tests = "".join(path.read_text() for path in (ROOT / "tests/security").glob("test_sandbox_*.py"))
    assert len(named) > 40
    assert [name for name in named if f"def test_{name}(" not in tests] == []
