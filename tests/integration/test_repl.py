"""The REPL here and on a server, played with the same assertions, and with OpenEnv at the other end of the wire."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

import envweave as ew
from envweave.envs.repl import REPLEnv, RLMRun, run_rlm
from envweave.errors import LanguageModelError, ResetNeededError, UnsupportedError, UsageError, WaitTimeoutError
from envweave.lm import LanguageModel
from envweave.requests import EpisodeEnd
from envweave.testing import scripted_model
from envweave.testing.misbehaviour import Cut, Failure, Hang
from envweave.testing.serving import running_server

HERE = Path(__file__).parent
if str(HERE / "fault_scripts") not in sys.path:
    sys.path.append(str(HERE / "fault_scripts"))

from cutting import Cuts, breaking  # noqa: E402  (found by the path above)

TOKEN = "hf_CallersOwnTokenOfThisTest"
WHERE = ["here", "thread", "process"]
VARIABLES = ("LLM_BASE_URL", "LLM_API_KEY", "LLM_MODEL", "LLM_EXTRA", "OPENAI_BASE_URL", "HF_TOKEN", "HF_INFERENCE_URL")


class Model:
    """A scripted model that plays REPLs by their task, and answers plain questions."""

    def __init__(self):
        self.gate = threading.Barrier(1)
        self.plays = {}
        """By the beginning of a task, what is replied to each message of a REPL."""

    def __call__(self, messages, model):
        said = messages[-1]["content"]
        if messages[0]["role"] != "system":
            return self.answer(said)
        task = messages[1]["content"].removeprefix("Task: ").split("\n")[0]
        return next(reply for name, reply in self.plays.items() if task.startswith(name))

    def answer(self, said):
        if said.startswith("gate"):
            self.gate.wait(30)
        ways = {
            "hang": Hang(200, ""),
            "refuse": Failure(400, json.dumps({"error": {"message": "not that"}})),
            "nonsense": Failure(200, "<html>"),
            "empty": Failure(200, "{}"),
            "huge": Failure(200, b"x" * (9 << 20)),
            "cut": Cut(200, "x" * 100, after_bytes=10),
        }
        return ways.get(said, f"you said {said}")


@pytest.fixture(scope="module")
def mind():
    return Model()


@pytest.fixture(scope="module")
def model(mind):
    with scripted_model(mind) as model:
        yield model


@pytest.fixture(scope="module")
def clean():
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        yield patch


@pytest.fixture(scope="module", params=WHERE)
def place(request, model, clean):
    """How to make a REPL there: the model is Hugging Face's."""
    if request.param == "here":
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HF_INFERENCE_URL", model.url)
            yield REPLEnv
        return
    options = ("--isolation", request.param, "--log-level", "warning")
    with running_server("repl", "--allow-branching", *options, env={"HF_INFERENCE_URL": model.url}) as server:
        yield lambda **more: REPLEnv(server.url, **more)


@pytest.fixture
def place_of_processes(clean):
    with server_of("--isolation", "process") as server:
        yield lambda: REPLEnv(server.url)


@pytest.fixture
def env(place):
    with place() as env:
        env.reset(context="hello world", task_prompt="Count", hf_token=TOKEN, llm_model="some/model")
        yield env


@pytest.fixture
def asked(model):
    """The requests of this test."""
    before = len(model.requests)
    return lambda: model.requests[before:]


@contextmanager
def server_of(*options, **variables):
    with running_server("repl", "--allow-branching", "--log-level", "warning", *options, env=variables) as server:
        yield server


def said(step):
    assert step.observation.result.success, step.observation.result.stderr
    return step.observation.result.stdout


def error(step):
    assert not step.observation.result.success
    return step.observation.result.exception


def block(code):
    return f"```repl\n{code}\n```"


# The same everywhere.


def test_an_episode_is_played(place):
    with place() as env:
        options = {"max_iterations": 5, "seed": 1, "episode_id": "mine", "expected_answer": 11}
        seen = env.reset(context="hello world", task_prompt="Count", **options)
        assert (seen.observation.context_preview, seen.observation.context_length) == ("hello world", 11)
        step = env.execute("count = len(context)")
        assert step.observation.result.locals_snapshot["count"] == "11"
        assert env.list_variables() == ["context", "answer", "count"]
        assert said(env.get_variable("count")) == "11\n"
        assert env.execute("1 / 0").reward == -0.05
        step = env.execute("print(f'FINAL({count})')")
        assert (step.done, step.terminated, step.truncated, step.reward) == (True, True, False, 1.0)
        assert step.info["final_answer"] == "11"
        assert [end.reason for end in step.requests if isinstance(end, EpisodeEnd)] == ["terminated"]
        state = env.state()
        assert (state.episode_id, state.step_count, state.iteration, state.max_iterations) == ("mine", 4, 4, 5)
        assert (state.context, state.task_prompt, state.final_answer) == ("hello world", "Count", "11")
        assert state.namespace_keys == ["context", "answer", "count"]
        with pytest.raises(ResetNeededError):
            env.execute("1")


def test_an_answer_is_submitted_and_scored(place):
    with place() as env:
        env.reset(expected_answer=11)
        step = env.submit_final_answer("11")
        assert (step.done, step.reward, step.info["final_answer"]) == (True, 1.0, "11")
        env.reset(expected_answer="12")
        step = env.execute("FINAL((1, 2))")
        assert (step.done, step.reward, step.info["final_answer"]) == (True, 0.0, "(1, 2)")


def test_iterations_run_out(place):
    with place() as env:
        env.reset(max_iterations=2)
        assert not env.execute("answer['content'] = 'half'").done
        step = env.execute("2")
        assert (step.terminated, step.truncated, step.reward) == (False, True, -0.1)
        assert step.info["final_answer"] == env.state().final_answer == "half"
        assert [end.reason for end in step.requests if isinstance(end, EpisodeEnd)] == ["truncated"]


def test_a_wrong_option_changes_nothing(env):
    env.execute("x = 1")
    for wrong in ({"max_iterations": 0}, {"context": 5}, {"nope": 1}, {"hf_token": "a b"}, {"llm_model": 5}):
        with pytest.raises(UsageError):
            env.reset(**wrong)
    assert said(env.execute("print(x, llm_query('still?'))")) == "1 you said still?\n"


def test_nothing_is_known_before_the_first_reset(place):
    with place() as env:
        assert (env.state().context, env.state().iteration, env.state().namespace_keys) == (None, 0, [])
        with pytest.raises(UsageError):
            env.execute("1")


def test_a_killed_interpreter_comes_back_with_its_context_and_its_model(env):
    env.execute("x = 1")
    assert "variables are lost" in env.execute("import os\nos._exit(1)").observation.result.stderr
    assert said(env.execute("print('x' in globals(), context, llm_query('hi'))")) == "False hello world you said hi\n"
    assert env.execute("FINAL(1)").done


@pytest.mark.parametrize("place", ["here", "thread"], indirect=True)
def test_a_fork_goes_its_own_way(env):
    env.execute("x = [1]")
    with env.fork() as twin, twin.fork() as third:
        assert twin.list_variables() == ["context", "answer", "x"]
        assert said(third.execute("x.append(3)\nprint(x, llm_query('hi'))")) == "[1, 3] you said hi\n"
        assert twin.execute("x.append(2)\nFINAL(x)").info["final_answer"] == "[1, 2]"
    assert said(env.execute("print(x, llm_query('on'))")) == "[1] you said on\n"


@pytest.mark.parametrize("place", ["here", "thread"], indirect=True)
def test_a_snapshot_is_come_back_to_with_the_model_of_its_episode(env, asked):
    env.execute("x = 1")
    snapshot = env.snapshot()
    env.execute("y = 2")
    env.execute("FINAL(y)")
    for token in (None, "hf_OfAnotherEpisode"):
        env.reset(hf_token=token)
        env.restore(snapshot)
        assert env.list_variables() == ["context", "answer", "x"]
        assert (env.state().iteration, env.state().final_answer) == (1, None)
        assert said(env.execute("print(x, llm_query('hi'))")) == "1 you said hi\n"
    assert [request.authorization for request in asked()] == [f"Bearer {TOKEN}"] * 2


def test_live_python_does_not_leave_its_process(place_of_processes):
    with place_of_processes() as env:
        env.reset()
        for call in (env.fork, env.snapshot):
            with pytest.raises(UnsupportedError, match="cannot leave its process"):
                call()
        assert said(env.execute("1 + 1")) == "2\n"


@pytest.mark.parametrize("context", ["nul\0 crlf\r\n cr\r \u2028 \U0001f600", "\U0001f600 x\r\n\0" * 3_000_000])
def test_a_context_arrives_as_it_is(place, context):
    with place() as env:
        assert env.reset(context=context).observation.context_length == len(context)
        env.execute("import hashlib")
        step = env.execute("hashlib.sha256(context.encode()).hexdigest()")
        import hashlib

        assert said(step) == f"'{hashlib.sha256(context.encode()).hexdigest()}'\n"
        assert env.state().context == context


# Language models.


def test_a_question_goes_to_hugging_face_with_the_token_and_the_model_of_the_caller(env, asked):
    assert said(env.execute("print(llm_query('hi'))")) == "you said hi\n"
    assert said(env.execute("print(llm_query('ho', model='other/one'))")) == "you said ho\n"
    first, second = asked()
    assert first.authorization == second.authorization == f"Bearer {TOKEN}"
    assert (first.model, second.model) == ("some/model", "other/one")
    assert first.body["top_p"] == 0.95


def test_a_batch_is_asked_at_the_same_time_and_never_more_than_so_many(env, mind, model):
    mind.gate = threading.Barrier(8)  # passes only if so many are here at the same time
    model.most_at_once = 0
    step = env.execute(
        "print(llm_query_batched([f'gate {n}' for n in range(24)]) == [f'you said gate {n}' for n in range(24)])"
    )
    assert said(step) == "True\n"
    assert model.most_at_once == 8


@pytest.mark.parametrize(
    ("prompt", "name", "complaint"),
    [
        ("refuse", "LanguageModelError", "not that"),
        ("nonsense", "InvalidReplyError", "does not answer in JSON"),
        ("empty", "InvalidReplyError", "has no choices"),
        ("huge", "InvalidReplyError", "does not answer in JSON"),
    ],
)
def test_a_model_that_fails_is_an_error_in_the_code_and_in_its_place_in_a_batch(env, prompt, name, complaint):
    step = env.execute(f"llm_query({prompt!r})")
    assert f"{name}: " in error(step)
    assert complaint in error(step)
    answers = said(env.execute(f"print(*llm_query_batched(['a', {prompt!r}, 'b']), sep='|')")).strip().split("|")
    assert (answers[0], answers[2]) == ("you said a", "you said b")
    assert answers[1].startswith("Error: ")
    assert complaint in answers[1]


def test_a_model_that_answers_with_final_ends_nothing(env, mind):
    step = env.execute("out = llm_query('x\\nFINAL(3)')\nprint(out)\nout")
    assert said(step).count("FINAL(3)") == 2
    assert not step.done
    assert not env.execute("prompt = 'Say\\nFINAL(3)'\nprint(llm_query(prompt))").done


def test_children_play_repls_of_their_own(env, mind, asked):
    mind.plays = {"deep": block("FINAL(rlm_query('deeper') + '!')"), "wide": block("FINAL(len(context))")}
    assert said(env.execute("print(rlm_query('deep'))")) == "you said deeper!\n"
    assert said(env.execute("print(rlm_query_batched(['wide' + 'x' * n for n in range(6)]))")) == (
        "['4', '5', '6', '7', '8', '9']\n"
    )
    assert {request.authorization for request in asked()} == {f"Bearer {TOKEN}"}
    assert {request.model for request in asked()} == {"some/model"}


def test_children_are_bounded_in_depth_number_and_turns(place, mind, asked):
    mind.plays = {"down": block("FINAL(rlm_query(context))"), "on": block("1")}
    with place() as env:
        with pytest.raises(UsageError, match="rlm_max_depth is 3, and the maximum here is 2"):
            env.reset(hf_token=TOKEN, rlm_max_depth=3)
        env.reset(hf_token=TOKEN)
        assert said(env.execute("print(rlm_query('down'))")) == "you said down\n"
        assert len(asked()) == 2, "one REPL, and a plain question from it"
        env.reset(hf_token=TOKEN, rlm_max_iterations=3)
        assert "gave no answer: truncated" in error(env.execute("rlm_query('on')"))
        assert len(asked()) == 5
        env.reset(hf_token=TOKEN, rlm_max_iterations=1)
        answers = "[answer.split(':')[-1] for answer in rlm_query_batched(['on'] * 70)]"
        step = env.execute(f"from collections import Counter\nsorted(Counter({answers}).values())")
        assert said(step) == "[6, 64]\n"


def test_without_a_token_there_is_nobody_to_ask(place):
    with place() as env:
        env.reset()
        assert "there is no language model here" in error(env.execute("llm_query('hi')"))
        assert said(env.execute("1 + 1")) == "2\n"


def test_a_token_is_for_one_episode(env, asked):
    env.reset()
    assert "there is no language model here" in error(env.execute("llm_query('hi')"))
    assert asked() == []


# Drivers.


@pytest.fixture
def player(model):
    with LanguageModel("player", base_url=model.url, api_key=TOKEN) as player:
        yield player


def test_a_model_plays_a_whole_episode(place, player, mind):
    mind.plays = {
        "How long": block("count = len(context)\nprint(llm_query('is it ' + str(count)))\nFINAL(count)"),
    }
    with place() as env:
        run = run_rlm(player, "hello world", "How long is it?", env=env, expected_answer=11, hf_token=TOKEN)
        assert isinstance(run, RLMRun)
        assert (run.answer, run.reward, run.ended, run.turns) == ("11", 1.0, "answered", 1)
        assert run.steps[0].observation.result.stdout == "you said is it 11\n'FINAL(11)'\n"
        assert env.state().final_answer == "11", "the environment stays open"
        mind.plays = {"How": "nothing but words"}
        run = run_rlm(player, "hello world", "How long is it?", env=env, max_iterations=3)
        assert (run.answer, run.ended, run.turns) == (None, "out_of_turns", 3)


def test_a_model_plays_without_being_given_a_repl(player, mind, asked):
    mind.plays = {
        "top": block("FINAL(llm_query('a') + ' ' + rlm_query('low') + ' ' + llm_query('b', model='m2'))"),
        "low": "FINAL(below)",
    }
    run = run_rlm(player, "text", "top", expected_answer="you said a below you said b")
    assert (run.answer, run.reward) == ("you said a below you said b", 1.0)
    assert [request.model for request in asked()] == ["player", "player", "player", "m2"]


def test_a_model_that_fails_raises_out_of_the_driver(model, mind):
    mind.plays = {"t": Failure(400, "no")}
    with LanguageModel("player", base_url=model.url) as player, pytest.raises(LanguageModelError):
        run_rlm(player, "c", "t")


# A server.


def test_the_model_of_the_operator_answers_those_without_a_token(model, clean, asked):
    variables = {"LLM_BASE_URL": model.url, "LLM_API_KEY": "sk-OfTheOperator", "LLM_MODEL": "local"}
    with server_of(**variables) as server, REPLEnv(server.url) as env:
        env.reset()
        assert said(env.execute("print(llm_query('hi'))")) == "you said hi\n"
        env.reset(llm_model="chosen")
        env.execute("llm_query('hi')")
    assert [(one.model, one.authorization) for one in asked()] == [
        ("local", "Bearer sk-OfTheOperator"),
        ("chosen", "Bearer sk-OfTheOperator"),
    ]


def test_a_server_takes_arguments_only_if_it_says_so(clean):
    with server_of() as server:
        env = REPLEnv(server.url, reward_on_success=5.0)
        with pytest.warns(UserWarning, match="ignored: reward_on_success; the server takes no options"):
            env.reset(expected_answer=1)
        assert env.submit_final_answer("1").reward == 1.0
        env.close()
    with (
        server_of("--allow-arguments") as server,
        REPLEnv(server.url, reward_on_success=5.0, max_output_length=10, context_preview_length=2) as env,
    ):
        assert env.reset(context="abc").observation.context_preview == "ab"
        step = env.execute("print('x' * 50)\nFINAL(1)")
        assert step.reward == 5.0
        assert step.observation.result.stdout.startswith("x" * 10 + "\n… [cut")


def test_an_episode_goes_on_though_the_connection_is_cut(model, clean):
    cuts = Cuts(seed=11, most=25, longest=6000)
    with (
        server_of(HF_INFERENCE_URL=model.url) as server,
        breaking(server.url, cuts) as url,
        REPLEnv(url, connect_timeout_s=60.0) as env,
    ):
        env.reset(context="hello", hf_token=TOKEN, max_iterations=5000)
        number = 0
        while cuts.made < 25:
            number += 1
            step = env.execute("n = globals().get('n', 0) + 1\nprint(n, llm_query('hi'))")
            assert said(step) == f"{number} you said hi\n"
            assert step.observation.iteration == number
        assert env.execute("FINAL(n)").info["final_answer"] == str(number)


def test_who_does_not_want_to_wait_comes_back_for_the_answer(model, mind, clean):
    mind.gate = threading.Barrier(2)
    with server_of(HF_INFERENCE_URL=model.url) as server, REPLEnv(server.url, message_timeout_s=2.0) as env:
        env.reset(hf_token=TOKEN)
        with pytest.raises(WaitTimeoutError):
            env.execute("x = llm_query('gate')")
        mind.gate.wait(30)
        step = env.last()
        assert said(step) == ""
        assert env.list_variables() == ["context", "answer", "x"]


def test_sessions_do_not_see_one_another(clean, model, asked):
    with server_of(HF_INFERENCE_URL=model.url) as server, REPLEnv(server.url) as one, REPLEnv(server.url) as two:
        one.reset(context="first", hf_token=TOKEN)
        two.reset(context="second", hf_token="hf_OfSomebodyElse")
        one.execute("x = 1\nopen('file', 'w').write('of one')")
        assert said(two.execute("import os\nprint(context, 'x' in globals(), os.listdir('.'))")) == "second False []\n"
        one.execute("llm_query('a')")
        two.execute("llm_query('b')")
    assert [request.authorization for request in asked()] == [f"Bearer {TOKEN}", "Bearer hf_OfSomebodyElse"]


def test_repls_are_played_as_a_vector(clean):
    with ew.make_vector("repl", 3) as vector:
        vector.reset(context="abc")
        seen = vector.step([{"code": f"FINAL(len(context) + {n})"} for n in range(3)])
        assert [info["final_answer"] for info in seen.info] == ["3", "4", "5"]


# OpenEnv at the other end.


def test_an_unmodified_openenv_client_plays_on_our_server(model, clean, asked):
    with server_of(HF_INFERENCE_URL=model.url) as server:
        command = [sys.executable, str(HERE / "openenv_client" / "repl.py"), server.url, TOKEN]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    assert TOKEN not in done.stdout
    played = json.loads(done.stdout)
    sync = played["sync"]
    seen = sync["reset"]["observation"]
    assert (seen["context_preview"], seen["context_length"], seen["max_iterations"]) == ("alpha beta gamma", 16, 30)
    assert sync["reset"]["reward"] is None
    assert "Count the words" in seen["result"]["stdout"]
    results = [step["observation"]["result"] for step in sync["steps"]]
    assert [result["success"] for result in results] == [True, False, True, True]
    assert results[0]["locals_snapshot"]["count"] == "3"
    assert results[1]["stdout"] == "before\n"
    assert results[1]["exception"] == "ZeroDivisionError: division by zero"
    assert results[2]["stdout"] == "you said hi\n"
    assert [step["reward"] for step in sync["steps"]] == [0.0, -0.05, 0.0, 1.0]
    assert [step["done"] for step in sync["steps"]] == [False, False, False, True]
    assert [step["observation"]["iteration"] for step in sync["steps"]] == [1, 2, 3, 4]
    assert sync["steps"][-1]["observation"]["metadata"]["final_answer"] == "3"
    assert sync["state"]["final_answer"] == "3"
    assert sync["state"]["episode_id"] == "mine"
    assert sync["state"]["context"] == "alpha beta gamma"
    assert sync["submitted"]["done"]
    assert played["async"][1]["observation"]["metadata"]["final_answer"] == "z"
    assert [(one.model, one.authorization) for one in asked()] == [("some/model", f"Bearer {TOKEN}")]


@pytest.fixture(scope="module")
def peer():
    """The URL of OpenEnv's own server, with the shapes of its REPL."""
    command = [sys.executable, str(HERE / "openenv_peer" / "repl.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.kill()


def test_our_client_plays_on_a_server_of_openenv(peer):
    with REPLEnv(peer, connect_timeout_s=60.0) as env:
        seen = env.reset(context="hello world", task_prompt="Count", episode_id="mine", hf_token=TOKEN)
        assert (seen.observation.context_preview, seen.observation.context_length) == ("hello world", 11)
        step = env.execute("count = len(context)")
        assert step.observation.result.locals_snapshot["count"] == "11"
        assert env.list_variables() == ["context", "answer", "count"]
        assert said(env.get_variable("count")) == "11\n"
        assert env.execute("1 / 0").reward == -0.05
        step = env.execute("print(FINAL(count))")
        assert (step.done, step.reward, step.info["final_answer"]) == (True, 1.0, "11")
        assert env.state().final_answer == "11"
        assert env.state().episode_id == "mine"
        env.reset()
        assert env.submit_final_answer("x").done


def test_a_model_plays_on_a_server_of_openenv(peer):
    replies = iter([block("count = len(context)"), block("print(FINAL(count))")])
    with REPLEnv(peer, connect_timeout_s=60.0) as env:
        run = run_rlm(lambda messages: next(replies), "hello world", "How long?", env=env)
    assert (run.answer, run.ended, run.iterations) == ("11", "answered", 2)


def test_options_of_ours_do_not_go_to_a_server_of_openenv(peer):
    with (
        pytest.warns(UserWarning, match="ignored: reward_on_success"),
        REPLEnv(peer, reward_on_success=5.0, connect_timeout_s=60.0) as env,
    ):
        env.reset()
