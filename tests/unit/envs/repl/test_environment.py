"""The REPL of this process: episodes, answers, rewards, limits, forks."""

import pytest

from envweave.envs.repl import REPLAction, REPLEnv, REPLEnvironment
from envweave.errors import ResetNeededError, UsageError
from envweave.requests import EpisodeEnd
from envweave.rewards import create_math_env_transform, create_safe_env_transform
from envweave.sandbox import Limits
from envweave.testing.check import check_env

TEXT = "hello world"


@pytest.fixture(scope="module")
def env():
    with REPLEnv() as env:
        yield env


@pytest.fixture
def begun(env):
    env.reset(context=TEXT, task_prompt="Count")
    return env


def result_of(step):
    return step.observation.result


def test_it_keeps_the_contract():
    report = check_env(REPLEnvironment)
    assert report.ok, str(report)


def test_the_example_of_the_issue():
    with REPLEnv() as env:
        seen = env.reset(context=TEXT, task_prompt="Count chars", max_iterations=30, seed=1, episode_id="mine")
        assert seen.observation.context_preview == TEXT
        assert seen.observation.context_length == 11
        assert seen.observation.available_variables == ["context", "answer"]
        assert (seen.observation.iteration, seen.observation.max_iterations) == (0, 30)
        step = env.execute("count = len(context)")
        assert result_of(step).success
        assert result_of(step).locals_snapshot["count"] == "11"
        assert result_of(step).execution_time > 0
        assert (result_of(step).stdout, result_of(step).stderr, result_of(step).exception) == ("", "", None)
        assert (step.done, step.reward) == (False, 0.0)
        step = env.execute("print(f'FINAL({count})')")
        assert (step.done, step.terminated, step.truncated, step.reward) == (True, True, False, None)
        assert step.info["final_answer"] == "11"
        assert [request.reason for request in step.requests if isinstance(request, EpisodeEnd)] == ["terminated"]
        state = env.state()
        assert (state.episode_id, state.step_count, state.final_answer) == ("mine", 2, "11")
        assert (state.context, state.task_prompt, state.iteration) == (TEXT, "Count chars", 2)
        assert state.namespace_keys == ["context", "answer", "count"]
        assert state.total_execution_time > 0


# Answers. What is printed is looked at closely in test_answers.py.


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("FINAL(42)", "42"),
        ("FINAL()", ""),
        ("FINAL(None)", "None"),
        ("FINAL(value='x')", "x"),
        ("FINAL((1, 2))", "(1, 2)"),
        ("FINAL('a\\nb')", "a\nb"),
        ("FINAL('nul\\0')", "nul\0"),
        ("FINAL('\\ud800')", "\\ud800"),
        ("x = 42\nprint(FINAL(x))", "42"),
        ("x = 42\nFINAL_VAR('x')", "42"),
        ("x = 42\nFINAL_VAR(' \"x\" ')", "42"),
        ("x = 42\nFINAL_VAR(x)", "42"),
        ("x = (1, 2)\nprint('FINAL_VAR(x)')", "(1, 2)"),
        ("class A:\n    def __str__(self): return 'as text'\nx = A()\nprint('FINAL_VAR(x)')", "as text"),
        ("x = 42\nprint(f'FINAL({x})')", "42"),
        ("FINAL(1); FINAL(2)", "1"),
        ("try:\n    FINAL(1)\n    1 / 0\nexcept ZeroDivisionError:\n    pass\nFINAL(2)", "1"),
        ("FINAL(1)\nraise SystemExit", "1"),
        ("import threading\nt = threading.Thread(target=FINAL, args=(7,))\nt.start()\nt.join()", "7"),
        ("async def f():\n    FINAL(3)\nawait f()", "3"),
        ("answer['content'] = 5\nanswer['ready'] = True", "5"),
        ("answer = {'content': 'x', 'ready': True}", "x"),
        ("answer = {'content': (1, 2), 'ready': 1}", "(1, 2)"),
        ("answer = {'content': {1}, 'ready': True}", "{1}"),
        ("answer = {'content': float('nan'), 'ready': True}", "nan"),
        ("answer = {'content': None, 'ready': True}", "None"),
        ("answer = {'ready': True}", ""),
        ("answer = {'content': 'x' * 3_000_000, 'ready': True}", "x" * 3_000_000),
        ("import collections\nanswer = collections.OrderedDict(content='x', ready=True)", "x"),
        ("FINAL('x' * 3_000_000)", "x" * 3_000_000),
    ],
)
def test_ways_to_give_an_answer(begun, code, answer):
    step = begun.execute(code)
    assert (step.done, step.reward, step.truncated) == (True, None, False), result_of(step)
    assert step.info["final_answer"] == begun.state().final_answer == answer


@pytest.mark.parametrize(
    "code",
    [
        "print(context)",
        "answer = {'content': 'x'}",
        "answer = {'content': 'x', 'ready': False}",
        "answer = 'ready'",
        "answer = 42",
        "del answer",
        "import sys\nprint('FINAL(3)', file=sys.stderr)",
        "FINAL = 3",
        "x = None\nprint('FINAL_VAR(x)')",
        "print('FINAL_VAR(nope)')",
        "x, name = 1, 'x'\nprint(f'FINAL_VAR({name})')",
        "import os\nchild = os.fork()\nif not child:\n    FINAL(9)\n    os._exit(0)\nos.waitpid(child, 0)",
    ],
)
def test_what_is_no_answer(env, code):
    env.reset(context="Please.\nFINAL(3)\n")
    step = env.execute(code)
    assert (step.done, step.reward) == (False, 0.0), result_of(step)
    assert env.state().final_answer is None


@pytest.mark.parametrize(
    "code",
    [
        "FINAL(1)\n1 / 0",
        "print('FINAL(1)')\n1 / 0",
        "answer = {'content': 1, 'ready': True}\n1 / 0",
        "FINAL(1)\nraise SystemExit(1)",
        "FINAL(1)\nimport os\nos._exit(0)",
        "FINAL(1)\nimport os\nos.kill(os.getpid(), 9)",
        "FINAL_VAR('nope')",
        "FINAL(1, 2)",
        "class A:\n    def __str__(self): 1 / 0\nFINAL(A())",
    ],
)
def test_code_that_fails_gives_no_answer(begun, code):
    step = begun.execute(code)
    assert (step.done, step.reward) == (False, -0.05)
    assert not result_of(step).success
    assert result_of(step).exception
    assert begun.execute("FINAL(2)").info["final_answer"] == "2"


def test_who_prints_a_quotation_is_told_how_to_answer(env):
    env.reset(context="Say\nFINAL(42)\nwhen you are done.")
    step = env.execute("x = 42\ntext = f'FINAL({x})'\nprint(text)")
    assert not step.done
    assert "Call FINAL(value) itself" in result_of(step).stderr
    assert "FINAL" not in result_of(env.execute("print(context)")).stderr
    assert env.execute("FINAL(x)").done


def test_a_variable_that_there_is_not_is_named_and_a_long_text_is_not_repeated(begun):
    assert "no variable named 'nope'; SHOW_VARS() lists them" in result_of(begun.execute("FINAL_VAR('nope')")).exception
    assert len(result_of(begun.execute("FINAL_VAR('x' * 100_000)")).exception) < 300


def test_a_ready_answer_that_cannot_be_written_is_told(begun):
    step = begun.execute("answer = {'content': 10 ** 6000, 'ready': True}")
    assert not step.done
    assert "the answer cannot be read: ValueError: Exceeds the limit" in result_of(step).stderr
    assert begun.execute("answer['content'] = 3").done


def test_an_answer_can_be_submitted_from_outside(begun):
    step = begun.submit_final_answer("11")
    assert (step.done, step.reward, step.info["final_answer"], step.observation.iteration) == (True, None, "11", 1)
    begun.reset()
    assert begun.step(REPLAction(is_final=True)).info["final_answer"] == ""
    begun.reset(expected_answer="x")
    assert begun.step({"code": "1 / 0", "is_final": True, "final_answer": "x"}).reward == 1.0, "its code is not run"


def test_nothing_goes_on_after_the_end(begun):
    begun.execute("FINAL(1)")
    for call in (lambda: begun.execute("1"), lambda: begun.submit_final_answer("2")):
        with pytest.raises(ResetNeededError):
            call()
    assert begun.state().final_answer == "1"


def test_a_bare_environment_takes_no_second_guess_after_the_end_not_even_in_a_fork_or_after_a_restore():
    with REPLEnvironment() as env:
        env.reset(expected_answer="42")
        running = env.snapshot()
        assert env.step(REPLAction(is_final=True, final_answer="41")).reward == 0.0
        over = env.snapshot()
        with env.fork() as twin:
            for each in (env, twin):
                for guess in (REPLAction(is_final=True, final_answer="42"), REPLAction(code="FINAL(42)")):
                    with pytest.raises(ResetNeededError, match="the episode is over"):
                        each.step(guess)
        env.restore(running)
        assert env.step(REPLAction(code="1")).reward == 0.0
        env.restore(over)
        with pytest.raises(ResetNeededError, match="the episode is over"):
            env.step(REPLAction(code="1"))
        env.reset(expected_answer="42")
        assert env.step(REPLAction(code="FINAL(42)")).reward == 1.0


# Rewards.


def test_an_answer_without_an_expected_one_is_not_scored_unless_the_operator_pays_for_any(env):
    for expected in (None, "", " "):
        env.reset(expected_answer=expected)
        assert env.execute("FINAL('nonsense')").reward is None
    with REPLEnv(reward_on_success=1.0) as paying:
        paying.reset()
        assert paying.execute("FINAL('nonsense')").reward == 1.0


def test_rewards_are_those_that_were_chosen():
    rewards = {"reward_on_success": 5, "reward_on_iteration": 0.1, "reward_on_failure": -3, "reward_on_error": -2}
    with REPLEnv(**rewards) as env:
        env.reset(max_iterations=3)
        assert [env.execute(code).reward for code in ("1", "1 / 0", "2")] == [0.1, -2.0, -3.0]
        env.reset(max_iterations=1)
        assert env.execute("FINAL(1)").reward == 5.0


@pytest.mark.parametrize(
    ("expected", "code", "reward"),
    [
        ("11", "FINAL(len(context))", 1.0),
        (11, "FINAL(len(context))", 1.0),
        (" Hello ", "FINAL('hello')", 1.0),
        ("12", "FINAL(len(context))", 0.0),
        ("11", "FINAL('22/2')", 1.0),
        ("11", "FINAL('not 11')", 0.0),
        ("x", "answer = {'content': 'x', 'ready': True}", 1.0),
    ],
)
def test_an_expected_answer_scores_the_answer(env, expected, code, reward):
    env.reset(context=TEXT, expected_answer=expected)
    step = env.execute(code)
    assert (step.done, step.reward) == (True, reward)


def test_a_metric_scores_in_parts_and_one_that_raises_leaves_the_answer_unscored():
    def overlap(expected, answer):
        if answer == "boom":
            raise ZeroDivisionError
        return len(set(expected) & set(answer)) / len(set(expected))

    with REPLEnv(metric=overlap, reward_on_success=2.0) as env:
        env.reset(expected_answer="abcd")
        assert env.execute("FINAL('ab')").reward == 1.0
        env.reset(expected_answer="abcd")
        step = env.execute("FINAL('boom')")
        assert (step.terminated, step.reward) == (True, None)
        assert step.info["error"]["message"] == "metric raised ZeroDivisionError"
        env.reset()
        assert env.execute("FINAL('boom')").reward == 2.0, "nothing is expected"


def test_a_transform_has_the_last_word():
    def halved(observation):
        observation.reward = (observation.reward or 0.0) / 2
        return observation

    with REPLEnv(transform=halved) as env:
        env.reset(expected_answer=1)
        assert env.execute("FINAL(1)").reward == 0.5


# Iterations.


def test_so_many_iterations_are_so_many_runs(env):
    env.reset(max_iterations=3)
    steps = [env.execute("x = globals().get('x', 0) + 1\nx") for _ in range(3)]
    assert [result_of(step).stdout for step in steps] == ["1\n", "2\n", "3\n"]
    assert [step.observation.iteration for step in steps] == [1, 2, 3]
    assert [(step.terminated, step.truncated, step.reward) for step in steps] == [
        (False, False, 0.0),
        (False, False, 0.0),
        (False, True, -0.1),
    ]
    assert steps[-1].info["final_answer"] is None
    with pytest.raises(ResetNeededError):
        env.execute("x")


def test_the_last_iteration_may_answer_and_may_fail(env):
    env.reset(max_iterations=1)
    assert env.execute("FINAL(1)").terminated
    env.reset(max_iterations=1)
    step = env.execute("1 / 0")
    assert (step.truncated, step.reward) == (True, -0.1)


@pytest.mark.parametrize(("content", "left"), [("'half'", "half"), ("(1, 2)", "(1, 2)"), ("''", None), ("0", None)])
def test_what_stands_in_answer_at_the_end_is_kept_and_earns_nothing(env, content, left):
    env.reset(max_iterations=1, expected_answer="half")
    step = env.execute(f"answer['content'] = {content}")
    assert (step.truncated, step.reward, step.info["final_answer"]) == (True, -0.1, left)
    assert env.state().final_answer == left


# The interpreter.


def test_after_a_kill_the_code_finds_what_it_began_with_and_is_told(begun):
    begun.execute("x = 1\nopen('kept', 'w').write('file')")
    step = begun.execute("import os\nos.kill(os.getpid(), 9)")
    assert "variables are lost, files are kept" in result_of(step).stderr
    assert step.observation.available_variables == ["context", "answer"]
    step = begun.execute("print(context, answer, SHOW_VARS(), open('kept').read(), math.pi > 3, 'x' in globals())")
    assert result_of(step).stdout == f"{TEXT} {{'content': '', 'ready': False}} ['answer', 'context'] file True False\n"
    assert begun.execute("FINAL(3)").done


def test_a_repr_that_ends_the_interpreter_is_told(begun):
    step = begun.execute("import os\nclass A:\n    def __repr__(self): os._exit(1)\nx = A()")
    assert result_of(step).success
    assert "has ended the interpreter" in result_of(step).stderr
    assert step.observation.available_variables == ["context", "answer"]
    assert result_of(begun.execute("print(context)")).stdout == f"{TEXT}\n"


def test_a_repr_that_does_not_end_takes_the_values_but_not_the_names():
    with REPLEnv(limits=Limits(wall=0.5)) as env:
        env.reset()
        step = env.execute("class A:\n    def __repr__(self):\n        while True: pass\nx = A()\ny = 3")
        assert step.observation.available_variables == ["context", "answer", "A", "x", "y"]
        assert result_of(step).locals_snapshot["x"] == "A"
        assert result_of(env.execute("y")).stdout == "3\n"


ORDERS = """
mail = next(cell.cell_contents for cell in llm_query.__closure__ if hasattr(cell.cell_contents, "order"))
take, orders = mail.order, []

def order():
    found = take()
    orders.append(found[0]["op"])
    return found

mail.order = order
"""
"""Lists what the host asks of the interpreter from the next step on."""


@pytest.mark.parametrize(
    "code",
    [
        "x = 1",
        "x = llm_query('a')",
        "1 / 0",
        "FINAL(1)",
        "FINAL([1, {'a': 2}])",
        "x = {3}\nFINAL_VAR('x')",
        "print('FINAL(1)')",
        "x = [1, 2]\nprint('FINAL_VAR(x)')",
        "answer = {'content': 'text', 'ready': True}",
        "answer.update(content=4.5, ready=True)",
        "answer.update(content=[1, 2], ready=True)",
        "answer.update(content={'a': llm_query('b')}, ready=True)",
        "answer.update(content='x' * 3_000_000, ready=True)",
        "class A:\n    def __str__(self): return 'as text'\nanswer = {'content': A(), 'ready': True}",
        "class A:\n    def __str__(self): 1 / 0\nanswer = {'content': A(), 'ready': True}",
    ],
)
@pytest.mark.parametrize("max_iterations", [2, 30], ids=["last", "not the last"])
def test_a_step_is_one_round_trip(code, max_iterations):
    with REPLEnvironment(llm_query_fn=str.upper) as env:
        env.reset(max_iterations=max_iterations)
        env.step(REPLAction(code=ORDERS))
        env.step(REPLAction(code=code))
        assert env._python.run("orders").return_value == ["run", "run"], "the second is this one"


def test_the_content_of_answer_comes_with_the_last_run():
    with REPLEnvironment() as env:
        env.reset(max_iterations=2)
        env.step(REPLAction(code=ORDERS))
        assert env.step(REPLAction(code="answer['content'] = [1, {2}]")).metadata["final_answer"] == "[1, {2}]"
        assert env._python.run("orders").return_value == ["run", "run"]


def test_a_seed_seeds(env):
    def draw(seed):
        env.reset(seed=seed)
        return result_of(env.execute("random.random()")).stdout

    assert draw(5) == draw(5) != draw(6)


def test_the_reason_of_a_failure_is_not_cut_off(begun):
    said = result_of(begun.execute("import sys\nprint('y' * 20_000, file=sys.stderr)\nraise ValueError('why')"))
    assert said.stderr.endswith("ValueError: why\n")
    assert len(said.stderr) < 9_000


def test_output_is_cut_and_says_so():
    with REPLEnv(max_output_length=10, context_preview_length=3) as env:
        assert env.reset(context="abcdef").observation.context_preview == "abc"
        said = result_of(env.execute("import sys\nprint('x' * 100)\nprint('y' * 100, file=sys.stderr)"))
        assert said.stdout == "xxxxxxxxxx\n… [cut: it has 101 characters]\n"
        assert said.stderr == "… [cut: it has 101 characters]\nyyyyyyyyy\n"
        said = result_of(env.execute("raise ValueError('z' * 100)"))
        assert said.exception.startswith("ValueError\n… [cut")
        assert env.execute("print(f\"FINAL({'x' * 100})\")").info["final_answer"] == "x" * 100


@pytest.mark.parametrize(
    "context",
    [
        "nul\0 crlf\r\n cr\r nel\x85 \u2028 four \U0001f600 bytes \ud800 alone",
        "nul\0 crlf\r\n cr\r nel\x85 \u2028 four \U0001f600 bytes \ud800 alone" * 5_000,
        "",
    ],
    ids=["short", "long", "none"],
)
def test_a_context_arrives_as_it_is(env, context):
    seen = env.reset(context=context).observation
    assert seen.context_length == len(context)
    expected = sum(ord(letter) * (place % 7 + 1) for place, letter in enumerate(context))
    step = env.execute("sum(ord(letter) * (place % 7 + 1) for place, letter in enumerate(context)), len(context)")
    assert result_of(step).stdout == f"[{expected}, {len(context)}]\n"
    assert env.state().context == context


def test_a_large_context_is_not_copied_per_step(env):
    context = "x" * 100_000_000
    env.reset(context=context)
    step = env.execute("count = len(context)")
    assert result_of(step).locals_snapshot["count"] == "100000000"
    assert len(result_of(step).locals_snapshot["context"]) < 1000
    assert len(repr(step)) < 20_000
    assert env.state().context is context
    with env.fork() as twin:
        assert twin.state().context is context
        assert result_of(twin.execute("context[-1], len(context)")).stdout == "['x', 100000000]\n"
    env.reset()


def test_nothing_is_known_before_the_first_reset():
    with REPLEnv() as env:
        assert (env.state().context, env.state().iteration) == (None, 0)
        for call in (lambda: env.execute("1"), lambda: env.submit_final_answer("1")):
            with pytest.raises(UsageError):
                call()
        assert env.list_variables() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"context": 5},
        {"context": b"bytes"},
        {"task_prompt": 5},
        {"max_iterations": 0},
        {"max_iterations": True},
        {"expected_answer": [1]},
        {"hf_token": 5},
        {"hf_token": "hf_a\nb"},
        {"llm_model": 5},
        {"rlm_max_depth": -1},
        {"rlm_max_iterations": 0},
        {"seed": "x"},
        {"nope": 1},
    ],
    ids=str,
)
def test_a_reset_with_a_wrong_option_changes_nothing(begun, wrong):
    begun.execute("x = 1")
    with pytest.raises(UsageError):
        begun.reset(**{"context": "other", **wrong})
    assert result_of(begun.execute("print(x, context)")).stdout == f"1 {TEXT}\n"
    assert begun.state().iteration == 2
    assert begun.list_variables() == ["context", "answer", "x"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"reward_on_success": "1"},
        {"reward_on_error": None},
        {"metric": "exact_match"},
        {"transform": 5},
        {"llm_query_fn": "f"},
        {"max_output_length": 0},
        {"rlm_max_children": -1},
        {"rlm_child_timeout_s": float("nan")},
        {"limits": {"walls": 3}},
        {"sandbox": {"nope": 1}},
    ],
    ids=str,
)
def test_an_environment_with_a_wrong_option_is_not_made(wrong):
    with pytest.raises(UsageError):
        REPLEnvironment(**wrong)


def test_defaults_come_from_the_variables_of_openenv(monkeypatch):
    variables = {
        "REPL_CONTEXT": "given",
        "REPL_TASK_PROMPT": "do",
        "REPL_MAX_ITERATIONS": "2",
        "REPL_MAX_OUTPUT_LENGTH": "5",
        "REPL_CONTEXT_PREVIEW_LENGTH": "3",
        "REPL_RLM_MAX_CHILDREN": "0",
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with REPLEnv(llm_query_fn=str) as env:
        seen = env.reset().observation
        assert (seen.max_iterations, seen.context_preview) == (2, "giv")
        assert result_of(env.execute("print('123456789')")).stdout.startswith("12345\n…")
        assert result_of(env.execute("rlm_query('x')")).stderr.endswith("uery\n"), "used up its REPLs for rlm_query"
        assert (env.state().context, env.state().task_prompt) == ("given", "do")
        env.reset(context="", task_prompt="", max_iterations=1)
        assert (env.state().context, env.state().task_prompt, env.state().max_iterations) == ("", "", 1)
        with pytest.raises(UsageError, match="max_iterations is 3, and the maximum here is 2"):
            env.reset(max_iterations=3)


# Branches.


def test_a_fork_goes_its_own_way(begun):
    begun.execute("x = [1]")
    with begun.fork() as twin:
        assert twin.list_variables() == ["context", "answer", "x"]
        assert twin.execute("x.append(2)\nFINAL(x)").info["final_answer"] == "[1, 2]"
        assert twin.state().final_answer == "[1, 2]"
    step = begun.execute("FINAL(x)")
    assert (step.info["final_answer"], begun.state().iteration) == ("[1]", 2)


def test_a_fork_answers_for_itself_alone(begun):
    with begun.fork() as twin:
        twin.execute("FINAL('twin')")
        assert not begun.execute("1").done


def test_a_snapshot_is_come_back_to_with_its_iteration_and_its_variables(begun):
    begun.execute("x = 1")
    snapshot = begun.snapshot()
    begun.execute("y = 2")
    begun.execute("FINAL(y)")
    begun.restore(snapshot)
    assert begun.list_variables() == ["context", "answer", "x"]
    assert (begun.state().iteration, begun.state().final_answer) == (1, None)
    assert "'y' is not defined" in result_of(begun.execute("y")).exception


# Transforms.


def test_transforms_for_code_score_steps_of_the_repl_too():
    with REPLEnv(transform=create_safe_env_transform()) as env:
        env.reset()
        assert env.execute("x = 1").info["rewards"]["code_safety"] == 0.0
        step = env.execute("import os")
        assert step.info["safety_violation"].startswith("import os")
        assert step.reward == -1.0, "short code is paid once"
        env.transform = None
        assert env.execute("1 / 0").reward == -0.05
        env.transform = create_math_env_transform(expected_answer=4)
        assert env.execute("print(2 + 2)").info["rewards"]["math_problem"] == 1.0
