"""An environment asks its driver for a tool, and waits for the answer."""

import pytest

import envweave as ew
from envweave.errors import UsageError
from support.clocks import adapt


class Searcher:
    """Asks for a search at each step and is done when it has found something."""

    def reset(self):
        return "ready"

    def step(self, action):
        call = ew.ToolCall(tool_name="search", arguments={"query": action})
        return ew.StepResult("searching", requests=[ew.LogEvent(name="asked"), call])

    def respond(self, request_id, value):
        if value == "twice":
            return ew.StepResult("again", requests=[ew.ToolCall(tool_name="search", arguments={"query": "more"})])
        if value is None:
            return None
        return value, 1.0, True, False, {}


def asked(env=None, **options):
    make = adapt if "clock" in options else ew.adapt
    env = make(env or Searcher(), id="s#0", **options)
    env.reset()
    result = env.step("cats")
    return env, next(request for request in result.requests if isinstance(request, ew.ToolCall))


def test_a_tool_call_comes_instead_of_need_action_and_has_an_id():
    env, call = asked()
    assert (call.tool_name, call.arguments, call.env_id) == ("search", {"query": "cats"}, "s#0")
    assert call.request_id
    assert env.pending == (call,)


def test_the_answer_continues_the_step():
    env, call = asked()
    result = env.respond(call.request_id, "nine cats")
    assert (result.obs, result.reward, result.terminated) == ("nine cats", 1.0, True)
    assert [request.kind for request in result.requests] == ["episode_end"]
    assert env.state().step_count == 1


def test_an_answer_may_lead_to_another_question():
    env, call = asked()
    again = env.respond(call.request_id, "twice")
    (second,) = again.requests
    assert second.request_id != call.request_id
    assert env.respond(second.request_id, "found").done


def test_an_environment_that_only_takes_note_asks_for_the_next_action():
    env, call = asked()
    result = env.respond(call.request_id, None)
    assert result.reward is None
    assert [request.kind for request in result.requests] == ["need_action"]
    env.step("dogs")


def test_a_step_while_a_tool_call_is_open_is_refused_with_the_way_out():
    env, call = asked()
    with pytest.raises(UsageError, match="waiting for its reply") as caught:
        env.step("dogs")
    assert call.request_id in caught.value.hint
    assert env.respond(call.request_id, "x").done


@pytest.mark.parametrize("wrong", ["", "nobody", None])
def test_an_answer_nobody_asked_for_is_refused(wrong):
    env, call = asked()
    with pytest.raises(UsageError, match="no open request"):
        env.respond(wrong, 1)
    assert env.respond(call.request_id, "x").done


def test_an_answer_is_taken_once():
    env, call = asked()
    env.respond(call.request_id, None)
    with pytest.raises(UsageError, match="no open request"):
        env.respond(call.request_id, "x")


def test_an_environment_that_fails_on_an_answer_ends_its_episode():
    class Fails(Searcher):
        def respond(self, request_id, value):
            raise RuntimeError("indigestible")

    env, call = asked(Fails())
    with pytest.raises(ew.EnvError, match="indigestible"):
        env.respond(call.request_id, 1)
    with pytest.raises(ew.errors.ResetNeededError):
        env.step("x")


def test_an_environment_may_refuse_an_answer_and_still_wait_for_a_better_one():
    class Picky(Searcher):
        def respond(self, request_id, value):
            if value != "good":
                raise ew.InvalidActionError("not good")
            return super().respond(request_id, value)

    env, call = asked(Picky())
    with pytest.raises(UsageError, match="not good"):
        env.respond(call.request_id, "bad")
    assert env.respond(call.request_id, "good").done


def test_two_open_calls_are_answered_in_any_order():
    class Two(Searcher):
        got = ()

        def step(self, action):
            return ew.StepResult(0, requests=[ew.ToolCall(tool_name="a"), ew.ToolCall(tool_name="b")])

        def respond(self, request_id, value):
            self.got = (*self.got, value)
            return (self.got, 1.0, True, False, {}) if len(self.got) == 2 else None

    env = ew.adapt(Two())
    env.reset()
    first, second = env.step(0).requests
    waiting = env.respond(second.request_id, "B")
    assert waiting.requests == ()
    assert env.respond(first.request_id, "A").obs == ("B", "A")


def test_an_environment_that_asks_but_cannot_be_answered_says_so():
    class Mute(Searcher):
        respond = property(lambda self: (_ for _ in ()).throw(AttributeError()))

    env, call = asked(Mute())
    with pytest.raises(ew.errors.UnsupportedError, match="respond"):
        env.respond(call.request_id, 1)


def test_a_reset_while_a_tool_call_is_open_ends_the_episode_as_closed():
    env, call = asked()
    first, *_ = env.reset().requests
    assert first.reason == "closed"
    with pytest.raises(UsageError):
        env.respond(call.request_id, "x")


def test_a_late_answer_ends_the_episode_as_timeout():
    class Hurried(Searcher):
        def step(self, action):
            return ew.StepResult(0, requests=[ew.ToolCall(tool_name="a", deadline=1.0)])

    now = [0.0]
    env, call = asked(Hurried(), clock=lambda: now[0])
    now[0] = 1.5
    result = env.respond(call.request_id, "x")
    assert [request.reason for request in result.requests] == ["timeout"]
