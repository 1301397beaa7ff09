import pytest

from envweave.envs.repl.prompts import (
    LAST_CALL,
    NUDGE,
    answer_in_words,
    code_blocks,
    first_prompt,
    outcome_prompt,
)
from envweave.envs.repl.types import CodeBlockResult, REPLObservation


@pytest.mark.parametrize(
    ("reply", "blocks"),
    [
        ("```repl\nx = 1\n```", ["x = 1"]),
        ("First\n```python\nx = 1\n\ny = 2\n```\nthen\n```repl\nz\n```\n", ["x = 1\n\ny = 2", "z"]),
        ("```PYTHON \nx\n``` ", ["x"]),
        ("``` py\nx\n```", ["x"]),
        ("   ```repl\n   if x:\n       y\n   ```", ["   if x:\n       y"]),
        ("```repl\r\nx = 1\r\ny = 2\r\n```\r\n", ["x = 1\ny = 2"]),
        ("```repl\nprint('''\n```inner''')\n```", ["print('''\n```inner''')"]),
        ("```repl\n```", [""]),
        ("```\nx\n```", []),
        ("```json\n{}\n```", []),
        ("```repl\nx = 1", []),
        ("say ```repl\nx\n```", []),
        ("", []),
    ],
)
def test_code_is_what_stands_in_blocks(reply, blocks):
    assert code_blocks(reply) == blocks


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("FINAL(42)", ("FINAL", "42")),
        ("I have it.\r\nFINAL(42)\r\n", ("FINAL", "42")),
        ("FINAL(a\nb)", ("FINAL", "a\nb")),
        ("FINAL_VAR(count)", ("FINAL_VAR", "count")),
        ("FINAL_VAR('count')", ("FINAL_VAR", "count")),
        ("the answer is FINAL(42)", None),
        ("nothing", None),
    ],
)
def test_an_answer_in_words_has_lines_to_itself(reply, answer):
    assert answer_in_words(reply) == answer


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "reply",
    [
        "```repl\n" * 30_000,
        "```repl\n" * 30_000 + "```x",
        "```" + " " * 200_000 + "repl",
        (" " * 100 + "\n") * 2_000 + "```repl\n",
        "FINAL(" * 40_000,
        "FINAL(\n" * 30_000,
        "FINAL(" + ") " * 100_000,
        "FINAL(" + "()" * 100_000,
        "`" * 200_000,
    ],
)
def test_no_reply_takes_long_to_read(reply):
    code_blocks(reply)
    answer_in_words(reply)


def test_the_first_prompt_has_the_task_and_the_beginning_of_the_context():
    said = first_prompt("Count", REPLObservation(context_preview="It was", context_length=1000))
    assert "Task: Count" in said
    assert "1000 characters" in said
    assert "It was" in said
    assert "begins" not in first_prompt("Count", REPLObservation())


def test_the_next_prompt_shows_what_each_block_did():
    seen = [
        REPLObservation(result=CodeBlockResult(stdout="one\n", stderr="oops\n")),
        REPLObservation(result=CodeBlockResult(), available_variables=["context", "x"]),
    ]
    said = outcome_prompt(seen, last=False)
    assert "Block 1:\none\noops" in said
    assert "Block 2:\n(nothing was printed)" in said
    assert "Variables: context, x" in said
    assert said.endswith(NUDGE)
    assert outcome_prompt(seen[:1], last=True).startswith("Output:\none")
    assert outcome_prompt([], last=True) == LAST_CALL
    assert outcome_prompt([], last=False) == NUDGE


def test_what_a_block_printed_is_not_shown_without_end():
    seen = [REPLObservation(result=CodeBlockResult(stdout="x" * 1_000_000))]
    assert len(outcome_prompt(seen, last=False)) < 25_000
