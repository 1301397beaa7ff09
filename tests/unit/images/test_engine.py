"""Progress and errors of a build."""

import pytest

pytest.importorskip("docker")

from envweave.errors import ProviderError
from envweave.images.engine import BuildStep, _follow


def stream(*texts):
    return [{"stream": text} for text in texts]


def test_each_step_and_each_line_is_reported():
    seen = []
    lines = [
        *stream("Step 1/2 : FROM x\n", " ---> abc\n", "Step 2/2 : RUN a  \\\n", "\x1b[91mwarning: b\x1b[0m\n", "\n"),
        {"aux": {"ID": "sha256:1"}},
    ]
    assert _follow(iter(lines), "t", seen.append) == "sha256:1"
    assert seen == [
        BuildStep("t", 1, 2, "FROM x"),
        BuildStep("t", 2, 2, "RUN a \\"),
        BuildStep("t", 2, 2, "RUN a \\", "warning: b"),
    ]


@pytest.mark.parametrize(
    ("error", "line", "hint"),
    [
        ("The command '/bin/sh -c x' returned a non-zero code: 3", "boom", ""),
        ("pull access denied for python", "", "--python-image"),
        ("The command returned a non-zero code: 1", "Temporary failure in name resolution", "--network host"),
        ("write /x: No space left on device", "", "docker system prune"),
    ],
)
def test_a_failure_names_the_step_the_reason_and_the_last_lines(error, line, hint):
    lines = [*stream("Step 1/2 : FROM x\n", "old\n", "Step 2/2 : RUN x\n", f"{line}\n"), {"error": error}]
    with pytest.raises(ProviderError, match="step 2/2 of t failed: RUN x: ") as caught:
        _follow(iter(lines), "t", lambda step: None)
    assert "old" not in caught.value.message
    assert caught.value.message.endswith(line)
    assert hint in caught.value.hint


def test_a_build_that_returns_no_image_id_fails():
    with pytest.raises(ProviderError, match="returned no image ID for t"):
        _follow(iter(stream("Step 1/1 : FROM x\n")), "t", lambda step: None)


def test_output_that_only_looks_like_a_step_is_output():
    seen = []
    lines = [*stream("Step 1/1 : RUN x\n", "Step one : done\n"), {"aux": {"ID": "sha256:1"}}]
    _follow(iter(lines), "t", seen.append)
    assert seen[-1] == BuildStep("t", 1, 1, "RUN x", "Step one : done")
