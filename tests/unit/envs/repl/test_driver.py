"""A model plays: here a list of replies plays, in the REPL of this process."""

from itertools import count

import pytest

from envweave.envs.repl import REPLEnv, run_rlm
from envweave.envs.repl.answers import final_in
from envweave.envs.repl.driver import LAST_CALL, NUDGE, code_blocks, first_prompt, outcome_prompt, play
from envweave.envs.repl.types import CodeBlockResult, REPLObservation


@pytest.fixture(scope="module")
def env():
    with REPLEnv() as env:
        yield env


def replying(*replies):
    """A model that gives these replies, and keeps what it was told."""
    left = iter(replies)

    def chat(messages):
        chat.heard.append(messages)
        return next(left)

    chat.heard = []
    return chat


def block(*lines):
    return "\n".join(["```repl", *lines, "```"])


def test_a_model_plays_a_whole_episode(env):
    chat = replying(block("count = len(context)", "print(count)"), block("FINAL(count)"))
    run = run_rlm(chat, "hello world", "How long is it?", env=env, expected_answer=11)
    assert (run.answer, run.reward, run.iterations, run.turns, run.ended) == ("11", 1.0, 2, 2, "answered")
    assert "How long is it?" in chat.heard[0][1]["content"]
    assert "Output:\n11" in chat.heard[1][-1]["content"]
    assert [message["role"] for message in run.messages] == ["system", "user", "assistant", "user", "assistant"]
    assert [step.reward for step in run.steps] == [0.0, 1.0]


def test_blocks_of_one_reply_are_steps_and_the_rest_is_left_when_one_answers(env):
    run = run_rlm(replying(block("x = 1") + "\n" + block("FINAL(x)") + "\n" + block("FINAL(2)")), "c", "t", env=env)
    assert (run.answer, run.iterations, run.turns) == ("1", 2, 1)


@pytest.mark.parametrize(
    ("words", "answer"), [("FINAL(42)", "42"), ("So:\nFINAL(a\nb)\n", "a\nb"), ("FINAL_VAR(x)", "(1, 2)")]
)
def test_an_answer_in_words_ends_it(env, words, answer):
    run = run_rlm(replying(block("x = (1, 2)"), words), "c", "t", env=env)
    assert (run.answer, run.ended, run.iterations) == (answer, "answered", 2)


def test_a_variable_in_words_that_there_is_not_is_told(env):
    chat = replying("FINAL_VAR(nope)", "FINAL(1)")
    assert run_rlm(chat, "c", "t", env=env).answer == "1"
    assert "no variable named 'nope'" in chat.heard[1][-1]["content"]


def test_nonsense_uses_up_the_turns_of_the_model_and_no_iterations(env):
    chat = replying(*["hm"] * 3)
    run = run_rlm(chat, "c", "t", env=env, max_iterations=3)
    assert (run.answer, run.reward, run.iterations, run.turns, run.ended) == (None, None, 0, 3, "out_of_turns")
    assert chat.heard[2][-1]["content"] == LAST_CALL


def test_the_last_iteration_is_announced_and_then_it_is_truncated(env):
    chat = replying(block("1"), block("answer['content'] = 'half'"))
    run = run_rlm(chat, "c", "t", env=env, max_iterations=2)
    assert (run.answer, run.ended, run.reward) == ("half", "truncated", -0.1)
    assert chat.heard[1][-1]["content"].endswith(LAST_CALL)


def test_the_time_is_looked_at_before_each_reply_and_each_step(env):
    ticks = count()
    begun = env.reset(context="c", task_prompt="t")
    replies = [f"{block('1')}\n{block('2')}", f"{block('3')}\n{block('4')}"]  # at 0, 1 and 2; at 3, 4, no more at 5
    run = play(replying(*replies), env, begun, "t", max_turns=9, deadline=5, clock=lambda: next(ticks))
    assert (run.ended, run.turns, run.iterations, run.answer) == ("out_of_time", 2, 3, None)


def test_who_is_stopped_asks_nobody(env):
    begun = env.reset(context="c", task_prompt="t")
    run = play(replying(), env, begun, "t", max_turns=9, stopped=lambda: True)
    assert (run.ended, run.turns) == ("out_of_time", 0)


def test_an_enormous_reply_is_cut_and_a_talk_does_not_grow_for_ever(env):
    run = run_rlm(lambda messages: "x" * 10_000_000, "c", "t", env=env, max_iterations=10_000)
    assert run.ended == "out_of_room"
    assert sum(len(message["content"]) for message in run.messages) < 5_000_000


def test_what_a_model_raises_is_raised(env):
    def chat(messages):
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        run_rlm(chat, "c", "t", env=env)


def test_without_an_environment_the_model_answers_the_questions_of_the_code_too():
    def chat(messages):
        asked = messages[-1]["content"]
        return (
            block("FINAL(llm_query('hi') + rlm_query('deep'))")
            if messages[0]["role"] == "system" and ("Task: t" in asked)
            else ("FINAL(below)" if messages[0]["role"] == "system" else f"you said {asked};")
        )

    assert run_rlm(chat, "c", "t").answer == "you said hi;below"


# Prompts and replies.


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
    assert final_in(reply) == answer


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
    final_in(reply)


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
