"""What the documents say runs."""

import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


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
    """The images that the documents name, as `envweave build` and `docker build` would have made them."""
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


def test_every_link_between_documents_leads_somewhere():
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_request_kind_and_end_reason_is_documented():
    from typing import get_args

    from envweave.requests import KINDS, EndReason

    text = (ROOT / "docs" / "contract.md").read_text()
    assert all(f"`{word}`" in text for word in (*KINDS, *get_args(EndReason)))


def test_each_thing_that_the_sandbox_covers_is_shown_by_a_test_that_exists():
    text = (ROOT / "src/envweave/sandbox/process.py").read_text()
    covered = text[text.index("Covered:") : text.index("Not covered:")]
    named = re.findall(r"^    \S.*  (\w+)$", covered, re.MULTILINE)
    tests = "".join(path.read_text() for path in (ROOT / "tests/security").glob("test_sandbox_*.py"))
    assert len(named) > 40
    assert [name for name in named if f"def test_{name}(" not in tests] == []
