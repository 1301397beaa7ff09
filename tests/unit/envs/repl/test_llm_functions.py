"""What answers the LLM functions, how many prompts run at once, and where recursion ends."""

import subprocess
import sys
import threading

import pytest

from envweave.envs.repl import REPLEnv
from envweave.envs.repl.llm_backends import AT_ONCE, FunctionBackend, NoBackend, ask_in_parallel, choose_backend
from envweave.errors import UsageError
from envweave.sandbox import Limits

LIMITS = Limits(memory_bytes=1 << 30, return_bytes=1 << 20)


def said(result):
    assert result.observation.result.success, result.observation.result.stderr
    return result.observation.result.stdout


def error(result):
    assert not result.observation.result.success
    return result.observation.result.exception


def test_a_function_answers_and_may_know_the_model():
    with REPLEnv(llm_query_fn=lambda prompt, model=None: f"{prompt} by {model}") as env:
        env.reset(llm_model="large")
        assert said(env.execute("print(llm_query('a'), llm_query('b', model='small'), llm_query('c', 'tiny'))")) == (
            "a by large b by small c by tiny\n"
        )


def test_a_batch_function_answers_batches_and_single_questions():
    with REPLEnv(llm_batch_fn=lambda prompts: [prompt.upper() for prompt in prompts]) as env:
        env.reset()
        assert said(env.execute("llm_query('a'), llm_query_batched(['b', 'c']), llm_batch(('d',))")) == (
            "['A', ['B', 'C'], ['D']]\n"
        )


def test_a_function_may_be_async():
    async def answer(prompt):
        return prompt * 2

    with REPLEnv(llm_query_fn=answer) as env:
        env.reset()
        assert said(env.execute("llm_query('ab'), llm_query_batched(['c'])")) == "['abab', ['cc']]\n"


def test_what_a_function_raises_is_raised_in_the_code_and_stands_in_its_place_in_a_batch():
    def answer(prompt):
        if prompt == "bad":
            raise ValueError("no such thing")
        return prompt

    with REPLEnv(llm_query_fn=answer) as env:
        env.reset()
        assert (
            said(env.execute("llm_query_batched(['a', 'bad', 'c'])"))
            == "['a', 'Error: ValueError: no such thing', 'c']\n"
        )
        assert error(env.execute("llm_query('bad')")) == "ValueError: no such thing"


def test_answers_that_do_not_fit_their_prompts_are_an_error():
    with REPLEnv(llm_batch_fn=lambda prompts: ["one"]) as env:
        env.reset()
        assert "1 answers to 2 prompts" in error(env.execute("llm_query_batched(['a', 'b'])"))


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        ("llm_query(5)", "a prompt is text, not int"),
        ("llm_query_batched('ab')", "prompts are a list of text, not str"),
        ("llm_query_batched(['a', None])", "a prompt is text, not NoneType"),
        ("rlm_query({})", "a prompt is text, not dict"),
        ("rlm_query_batched('ab')", "prompts are a list of text, not str"),
        ("llm_query()", "missing 1 required positional argument"),
        ("llm_query_batched(['x'] * 1001)", "1001 prompts are more than the 1000"),
        ("rlm_query_batched(['x'] * 1001)", "1001 prompts are more than the 1000"),
    ],
)
def test_a_wrong_question_is_told_what_is_wrong(call, complaint):
    with REPLEnv(llm_query_fn=str) as env:
        env.reset()
        assert complaint in error(env.execute(call))


def test_no_questions_have_no_answers():
    with REPLEnv(llm_query_fn=str) as env:
        env.reset()
        assert said(env.execute("llm_query_batched([]), rlm_query_batched([])")) == "[[], []]\n"


def test_without_a_model_the_code_is_told_how_to_get_one(monkeypatch):
    for name in ("LLM_BASE_URL", "OPENAI_BASE_URL", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with REPLEnv() as env:
        env.reset()
        for call in ("llm_query('a')", "llm_query_batched(['a'])", "rlm_query('a')"):
            assert "there is no language model here: pass llm_query_fn" in error(env.execute(call))
        assert said(env.execute("llm_query_batched([])")) == "[]\n"


def test_whom_to_ask():
    assert isinstance(choose_backend(str, None, None, hf_token=None, model=None), FunctionBackend)
    assert isinstance(NoBackend().query_batched([], None, bool), list)
    with pytest.raises(UsageError, match="no header can carry"):
        choose_backend(str, None, None, hf_token="a b", model=None)


def test_a_batch_is_asked_at_the_same_time_and_never_more_than_so_many():
    at_once, most, lock = 0, 0, threading.Lock()
    together = threading.Barrier(AT_ONCE)

    def answer(prompt):
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        together.wait(30)  # passes only if so many are here at the same time
        with lock:
            at_once -= 1
        return prompt

    with REPLEnv(llm_query_fn=answer) as env:
        env.reset()
        assert said(env.execute(f"llm_query_batched([str(n) for n in range({2 * AT_ONCE})])")) == (
            f"{[str(n) for n in range(2 * AT_ONCE)]}\n"
        )
    assert most == AT_ONCE


def test_nobody_is_asked_any_more_when_nobody_waits():
    asked = []
    answers = ask_in_parallel(lambda n: asked.append(n) or "yes", range(50), lambda: len(asked) >= 3, 1)
    assert answers == ["yes"] * 3 + ["Error: the episode has ended"] * 47


def test_a_parameter_that_is_no_model_is_left_alone():
    ask = FunctionBackend(lambda prompt, prefix="hi ": prefix + prompt, None, None, "m")
    assert ask.query("you", None) == "hi you"
    named = FunctionBackend(lambda prompt, *, model: f"{model}: {prompt}", None, None, "m")
    assert (named.query("you", None), named.query("you", "n")) == ("m: you", "n: you")


def test_side_by_side_keeps_the_order_and_takes_anything():
    assert ask_in_parallel(lambda n: str(n * n), range(50), bool, 3) == [str(n * n) for n in range(50)]
    assert ask_in_parallel(str, [], bool) == []


def test_a_function_that_never_returns_does_not_keep_the_process_from_its_end():
    code = """
import threading
from envweave.envs.repl import REPLEnv
from envweave.sandbox import Limits
env = REPLEnv(llm_query_fn=lambda prompt: threading.Event().wait(), limits=Limits(tool_wall=0.2))
env.reset()
print(env.execute("llm_query_batched(['a', 'b'])").observation.result.exception)
env.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "TimeoutError: the tool did not answer within 0.2 s" in done.stdout


# Children.


class Talker:
    """A model that counts the REPLs it plays in, and plays each by the text of its task."""

    def __init__(self, reply):
        self.reply = reply
        self.tasks = []

    def __call__(self, messages):
        if messages[0]["role"] != "system":
            return f"plain {messages[0]['content']}"
        task = messages[1]["content"].partition("\n")[0].removeprefix("Task: ")
        if len(messages) == 2:
            self.tasks.append(task)
        return self.reply(task)


def block(code):
    return f"```repl\n{code}\n```"


def test_a_child_is_a_repl_of_its_own_with_the_prompt_as_its_context():
    talk = Talker(lambda task: block("FINAL(f'{context!r} {sorted(SHOW_VARS())} {\"mine\" in globals()}')"))
    with REPLEnv(llm_chat_fn=talk, limits=LIMITS) as env:
        env.reset(context="of the parent", expected_answer="x")
        assert said(env.execute("mine = 1\nprint(rlm_query('below'))")) == "'below' ['answer', 'context'] False\n"
    assert talk.tasks == ["below"]


def test_a_long_prompt_is_the_context_of_a_child_and_not_its_task():
    talk = Talker(lambda task: block("FINAL(len(context))"))
    with REPLEnv(llm_chat_fn=talk) as env:
        env.reset()
        assert said(env.execute("print(rlm_query('x' * 100_000))")) == "100000\n"
    assert len(talk.tasks[0]) < 100


@pytest.mark.parametrize(("depth", "repls"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3)])
def test_repls_lie_as_deep_below_one_another_as_they_may(depth, repls):
    talk = Talker(lambda task: block("FINAL('(' + rlm_query(context + '+') + ')')"))
    with REPLEnv(llm_chat_fn=talk, rlm_max_depth=4) as env:
        env.reset(rlm_max_depth=depth)
        assert said(env.execute("print(rlm_query('q'))")) == "(" * repls + "plain q" + "+" * repls + ")" * repls + "\n"
    assert talk.tasks == ["q" + "+" * n for n in range(repls)]


def test_an_episode_has_so_many_children_with_those_below_them():
    talk = Talker(lambda task: block("r = rlm_query_batched(['x', 'x'])\nFINAL('+'.join(r))"))
    with REPLEnv(llm_chat_fn=talk, rlm_max_children=3, rlm_max_depth=3) as env:
        env.reset()
        text = said(env.execute("print(rlm_query_batched(['a', 'b', 'c']))"))
        assert "used up its REPLs for rlm_query" in text
        assert "used up its REPLs" in error(env.execute("rlm_query('d')"))
        assert len(talk.tasks) == 3
        env.reset(rlm_max_depth=2)
        assert "plain x+plain x" in said(env.execute("print(rlm_query('a'))")), "a new episode, new children"


def test_a_child_that_comes_to_no_answer_is_an_error_with_the_reason():
    with REPLEnv(llm_chat_fn=Talker(lambda task: block("1"))) as env:
        env.reset(rlm_max_iterations=2)
        assert "gave no answer: truncated" in error(env.execute("rlm_query('a')"))
        assert said(env.execute("rlm_query_batched(['a'])")) == (
            "['Error: RuntimeError: the child REPL gave no answer: truncated']\n"
        )
    with REPLEnv(llm_chat_fn=Talker(lambda task: "hm")) as env:
        env.reset(rlm_max_iterations=2)
        assert "gave no answer: out_of_turns" in error(env.execute("rlm_query('a')"))


def test_a_child_has_no_more_than_its_time():
    with REPLEnv(llm_chat_fn=Talker(lambda task: block("1")), rlm_child_timeout_s=1e-9) as env:
        env.reset()
        assert "gave no answer: out_of_time" in error(env.execute("rlm_query('a')"))


def test_children_of_an_episode_that_is_over_end_with_their_next_reply():
    asked, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def reply(task):
        if asked.is_set():
            ended.set()
        asked.set()
        go_on.wait(30)
        return block("1")

    with REPLEnv(llm_chat_fn=Talker(reply), limits=Limits(tool_wall=0.2)) as env:
        env.reset()
        assert "did not answer within 0.2 s" in error(env.execute("rlm_query('a')"))
        assert asked.wait(30)
        below = next(thread for thread in threading.enumerate() if thread.name == "tool rlm_query")
        env.reset()
        go_on.set()
        below.join(30)
    assert not below.is_alive()
    assert not ended.is_set()


def test_a_fork_has_as_many_children_left_as_its_original_had():
    talk = Talker(lambda task: "FINAL(ok)")
    with REPLEnv(llm_chat_fn=talk, rlm_max_children=2) as env:
        env.reset()
        env.execute("rlm_query('a')")
        with env.fork() as twin:
            assert said(twin.execute("rlm_query('b')")) == "'ok'\n"
            assert "used up its REPLs" in error(twin.execute("rlm_query('c')"))
        assert said(env.execute("rlm_query('d')")) == "'ok'\n"
        assert "used up its REPLs" in error(env.execute("rlm_query('e')"))


def test_a_snapshot_knows_whom_to_ask_wherever_it_is_restored():
    with REPLEnv(llm_query_fn=str.upper) as env, REPLEnv() as other:
        env.reset()
        env.execute("x = 'a'")
        snapshot = env.snapshot()
        env.close()
        other.restore(snapshot)
        assert said(other.execute("llm_query(x)")) == "'A'\n"
        assert other.list_variables() == ["context", "answer", "x"]
        other.reset()
        assert "there is no language model" in error(other.execute("llm_query('a')"))
        other.restore(snapshot)
        assert said(other.execute("llm_query(x)")) == "'A'\n"
