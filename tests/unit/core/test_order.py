"""Calls in the wrong order are refused and change nothing; ends come exactly once."""

import threading

import pytest

import envweave as ew
from envweave.errors import BusyError, ClosedError, ResetNeededError, UnavailableError
from support.clocks import adapt


def ends(requests):
    return [request.reason for request in requests if isinstance(request, ew.EpisodeEnd)]


def kinds(requests):
    return [request.kind for request in requests]


def counter(**options):
    return ew.adapt(ew.examples.CounterEnv(), id="counter#0", **options)


def test_a_step_before_reset_is_refused():
    with pytest.raises(ResetNeededError, match="not reset yet"):
        counter().step({"delta": 1})


def test_a_step_after_the_end_is_refused_until_reset():
    env = counter()
    env.reset()
    ended = env.step({"delta": 5})
    assert ended.done
    for _ in range(2):
        with pytest.raises(ResetNeededError, match="is over"):
            env.step({"delta": 1})
    assert env.state() == ew.State(episode_id=ended.requests[0].episode_id, step_count=1)
    env.reset()
    assert env.step({"delta": 1}).reward == 1.0


def test_need_action_comes_with_reset_and_each_step_and_not_with_the_end():
    env = counter()
    reset = env.reset()
    assert kinds(reset.requests) == ["need_action"]
    assert reset.requests[0].env_id == "counter#0"
    assert reset.requests[0].action_schema["properties"]["delta"]["type"] == "integer"
    assert kinds(env.step({"delta": 1}).requests) == ["need_action"]
    assert kinds(env.step({"delta": 5}).requests) == ["episode_end"]
    assert env.pending == ()


def test_an_episode_that_is_given_up_by_reset_ends_as_closed_before_the_next_begins():
    env = counter()
    env.reset()
    first = env.state().episode_id
    env.step({"delta": 1})
    again = env.reset()
    assert kinds(again.requests) == ["episode_end", "need_action"]
    assert (again.requests[0].reason, again.requests[0].episode_id) == ("closed", first)
    assert env.state().episode_id != first


def test_close_says_once_that_the_episode_ended_and_twice_is_harmless():
    env = counter()
    env.reset()
    assert ends(env.close()) == ["closed"]
    assert env.close() == ()
    for call in (env.reset, lambda: env.step({"delta": 1})):
        with pytest.raises(ClosedError):
            call()


def test_closing_after_the_end_has_nothing_more_to_say():
    env = counter()
    env.reset()
    env.step({"delta": 5})
    assert env.close() == ()


def test_the_environment_is_closed_once_and_also_when_the_body_raises():
    closed = []

    class Env(ew.examples.CounterEnv):
        def close(self):
            closed.append(1)

    env = ew.adapt(Env())

    def body():
        with env:
            env.reset()
            raise KeyError

    with pytest.raises(KeyError):
        body()
    env.close()
    assert closed == [1]


def test_a_close_that_raises_is_an_env_error_and_the_handle_is_closed_all_the_same():
    class Env(ew.examples.CounterEnv):
        def close(self):
            raise OSError("disk on fire")

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match="disk on fire") as caught:
        env.close()
    assert ends(caught.value.requests) == ["closed"]
    assert env.close() == ()


def test_autoreset_keeps_the_terminal_observation_and_announces_the_next_episode():
    env = counter(autoreset=True)
    env.reset()
    result = env.step({"delta": 7})
    assert result.obs.value == 7
    assert result.done
    assert kinds(result.requests) == ["episode_end", "autoreset_ready", "need_action"]
    ready = result.requests[1]
    assert (ready.initial_obs.value, ready.episode_id) == (0, env.state().episode_id)
    assert ready.episode_id != result.requests[0].episode_id
    assert env.step({"delta": 1}).obs.value == 1


def test_autoreset_passes_on_what_the_new_reset_asks():
    class Env:
        def reset(self):
            return ew.ResetResult(0, requests=(ew.LogEvent(name="hello"),))

        def step(self, action):
            return 0, 1.0, True, False, {}

    env = ew.adapt(Env(), autoreset=True)
    env.reset()
    assert kinds(env.step(0).requests) == ["episode_end", "autoreset_ready", "log_event", "need_action"]


def test_a_failed_autoreset_does_not_lose_the_result_of_the_episode():
    class Env(ew.examples.CounterEnv):
        resets = 0

        def reset(self):
            self.resets += 1
            if self.resets == 2:
                raise OSError("no more episodes")
            return super().reset()

    env = ew.adapt(Env(), autoreset=True)
    env.reset()
    result = env.step({"delta": 5})
    assert result.reward == 5.0
    assert kinds(result.requests) == ["episode_end", "log_event"]
    assert "no more episodes" in result.requests[1].payload["message"]
    with pytest.raises(ResetNeededError):
        env.step({"delta": 1})
    env.reset()
    env.step({"delta": 1})


def test_an_environment_that_raises_ends_its_episode_unscored_and_can_be_reset():
    class Env(ew.examples.CounterEnv):
        def step(self, action):
            if action.delta == 13:
                raise ZeroDivisionError("unlucky")
            return super().step(action)

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match="ZeroDivisionError: unlucky") as caught:
        env.step({"delta": 13})
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert ends(caught.value.requests) == ["infra_error"]
    with pytest.raises(ResetNeededError):
        env.step({"delta": 1})
    assert kinds(env.reset().requests) == ["need_action"]
    assert env.step({"delta": 1}).reward == 1.0


def test_an_environment_that_calls_exit_does_not_end_the_program():
    class Env(ew.examples.CounterEnv):
        def step(self, action):
            raise SystemExit(3)

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match="SystemExit"):
        env.step({"delta": 1})


def test_ctrl_c_during_a_step_goes_up_and_leaves_a_handle_that_can_be_reset():
    class Env(ew.examples.CounterEnv):
        def step(self, action):
            raise KeyboardInterrupt

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(KeyboardInterrupt):
        env.step({"delta": 1})
    again = env.reset().requests
    assert (ends(again), kinds(again)) == (["infra_error"], ["episode_end", "need_action"])


def test_an_environment_may_refuse_an_action_and_go_on_unchanged():
    with ew.make("nim", heaps=[1, 2]) as env:
        env.reset()
        with pytest.raises(ew.InvalidActionError, match="cannot take 2"):
            env.step({"alice": {"heap": 0, "count": 2}})
        assert [request.agent_id for request in env.pending] == ["alice"]
        assert not env.step({"alice": {"heap": 0, "count": 1}}).done


def test_a_second_call_while_one_is_running_is_refused():
    entered, leave = threading.Event(), threading.Event()

    class Env(ew.examples.CounterEnv):
        def step(self, action):
            entered.set()
            leave.wait(30)
            return super().step(action)

    env = ew.adapt(Env())
    env.reset()
    results = []
    thread = threading.Thread(target=lambda: results.append(env.step({"delta": 1})))
    thread.start()
    assert entered.wait(30)
    for call in (env.reset, lambda: env.step({"delta": 1})):
        with pytest.raises(BusyError):
            call()
    leave.set()
    thread.join(30)
    assert results[0].reward == 1.0


def test_a_step_limit_truncates():
    env = counter(max_episode_steps=2)
    env.reset()
    assert not env.step({"delta": 0}).done
    last = env.step({"delta": 0})
    assert (last.terminated, last.truncated, ends(last.requests)) == (False, True, ["truncated"])
    env.reset()
    assert not env.step({"delta": 0}).done


def test_a_step_limit_does_not_hide_a_real_end():
    env = counter(max_episode_steps=1)
    env.reset()
    last = env.step({"delta": 9})
    assert (last.terminated, last.truncated) == (True, False)


def test_an_environments_own_end_with_its_own_reason_is_the_only_one():
    class Env:
        def reset(self):
            return 0

        def step(self, action):
            return ew.StepResult(0, -1.0, requests=[ew.EpisodeEnd(reason="invalid_action"), ew.LogEvent(name="x")])

    env = ew.adapt(Env(), id="e#0")
    env.reset()
    result = env.step(0)
    assert result.done
    assert ends(result.requests) == ["invalid_action"]
    assert all(request.env_id == "e#0" for request in result.requests)


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_an_action_within_the_deadline_counts():
    clock = Clock()
    env = adapt(ew.examples.CounterEnv(), deadline=5.0, clock=clock)
    assert env.reset().requests[0].deadline == 5.0
    for _ in range(2):
        clock.now += 4.9
        assert env.step({"delta": 1}).reward is not None


def test_an_action_after_the_deadline_ends_the_episode_unscored_and_is_not_played():
    clock = Clock()
    env = adapt(ew.examples.CounterEnv(), deadline=5.0, clock=clock)
    env.reset()
    env.step({"delta": 1})
    clock.now += 5.1
    late = env.step({"delta": 1})
    assert (late.reward, late.terminated, late.truncated) == (None, False, True)
    assert ends(late.requests) == ["timeout"]
    assert late.obs.value == 1
    assert late.info["error"]["code"] == "timeout"
    with pytest.raises(ResetNeededError):
        env.step({"delta": 1})
    env.reset()
    assert env.step({"delta": 1}).reward == 1.0


def test_a_late_action_with_autoreset_begins_the_next_episode():
    clock = Clock()
    env = adapt(ew.examples.CounterEnv(), deadline=5.0, clock=clock, autoreset=True)
    env.reset()
    clock.now += 6
    assert kinds(env.step({"delta": 1}).requests) == ["episode_end", "autoreset_ready", "need_action"]
    assert env.step({"delta": 1}).reward == 1.0


def test_an_environments_own_deadline_is_enforced():
    clock = Clock()

    class Env(ew.examples.CounterEnv):
        deadline = 1.0

    env = adapt(Env(), clock=clock)
    env.reset()
    clock.now += 1.5
    assert ends(env.step({"delta": 1}).requests) == ["timeout"]


def test_a_transform_sets_the_reward():
    env = ew.examples.CounterEnv()
    handle = ew.adapt(env)
    handle.reset()

    def halved(observation):
        observation.reward /= 2
        return observation

    env.transform = halved
    assert handle.step({"delta": 1}).reward == 0.5
    env.transform = None
    assert handle.step({"delta": 1}).reward == 2.0


def test_a_transform_that_raises_leaves_the_step_unscored_with_the_reason():
    env = ew.examples.CounterEnv()
    env.transform = lambda observation: 1 / 0
    handle = ew.adapt(env)
    handle.reset()
    result = handle.step({"delta": 1})
    assert result.reward is None
    assert "ZeroDivisionError" in result.info["error"]["message"]
    assert not result.done


def test_render_and_state_come_from_the_environment_or_are_refused():
    line = ew.make("lineworld")
    line.reset(seed=0)
    assert "●" in line.render()
    env = counter()
    with pytest.raises(ew.errors.UnsupportedError, match="does not support render"):
        env.render()

    class Env(ew.examples.CounterEnv):
        @property
        def state(self):
            return {"hidden": self._value}

    env = ew.adapt(Env())
    env.reset()
    assert env.state() == {"hidden": 0}


def test_a_transform_is_applied_to_an_environment_of_any_class_and_to_the_answer_of_a_tool_call():
    class Env:
        def __init__(self):
            self.transform = lambda observation: ew.Observation(reward=7.0, done=observation == "answered")

        def reset(self):
            return "begun"

        def step(self, action):
            return ew.StepResult("asking", requests=[ew.ToolCall(tool_name="t")]) if action else "plain"

        def respond(self, request_id, value):
            return "answered"

    env = ew.adapt(Env())
    env.reset()
    assert env.step(0).reward == 7.0
    (call,) = env.step(1).requests
    answered = env.respond(call.request_id, None)
    assert (answered.reward, answered.done) == (7.0, True)


@pytest.mark.parametrize("member", ["state", "render", "snapshot"])
def test_a_member_that_raises_is_an_env_error_and_the_episode_goes_on(member):
    def broken(self):
        raise OSError("no view today")

    env = ew.adapt(type("Env", (ew.examples.CounterEnv,), {member: broken})())
    env.reset()
    with pytest.raises(ew.EnvError, match=f"{member} of Env raised OSError: no view today"):
        getattr(env, member)()
    assert env.step({"delta": 1}).reward == 1.0


def test_a_state_method_that_is_not_implemented_is_no_state():
    class Env(ew.examples.CounterEnv):
        def state(self):
            raise NotImplementedError

    env = ew.adapt(Env())
    env.reset()
    assert env.state().step_count == 0


def test_a_factory_that_calls_exit_does_not_end_the_program():
    ew.register("exits", lambda: (_ for _ in ()).throw(SystemExit(1)), overwrite=True)
    with pytest.raises(ew.EnvError, match="SystemExit"):
        ew.make("exits")
    ew.unregister("exits")


def test_an_exception_that_cannot_say_what_it_is_costs_its_episode_and_no_more():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no words")

    class Env(ew.examples.CounterEnv):
        def step(self, action):
            raise Mute

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match=r"Mute: .its text"):
        env.step({"delta": 1})
    env.reset()


@pytest.mark.parametrize("error", [GeneratorExit, type("Own", (BaseException,), {}), StopIteration])
def test_whatever_an_environment_raises_is_its_failure(error):
    class Env(ew.examples.CounterEnv):
        def step(self, action):
            raise error

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match=error.__name__):
        env.step({"delta": 1})


def test_only_an_invalid_action_error_means_that_nothing_has_changed():
    class Env(ew.examples.CounterEnv):
        def step(self, action):
            with ew.make("counter") as inner:
                return inner.step({"delta": 1})  # not reset: a mistake of this author's, not of the driver's

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.EnvError, match="ResetNeededError") as caught:
        env.step({"delta": 1})
    assert ends(caught.value.requests) == ["infra_error"]


def test_a_reset_that_refuses_its_options_still_tells_that_the_old_episode_ended():
    class Env(ew.examples.CounterEnv):
        def reset(self, *, level=1):
            if level > 1:
                raise ew.UsageError("there is no such level")
            return super().reset()

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.UsageError, match="no such level"):
        env.reset(level=2)
    assert ends(env.reset().requests) == ["closed"]
    assert ends(env.close()) == ["closed"]


def test_a_reset_that_takes_a_package_that_is_not_here_says_so():
    class Env(ew.examples.CounterEnv):
        def reset(self, *, token=None):
            if token:
                raise UnavailableError("'httpx' is not installed", "pip install 'envweave[client]'")
            return super().reset()

    env = ew.adapt(Env())
    with pytest.raises(UnavailableError, match="'httpx' is not installed"):
        env.reset(token="x")
    env.reset()


def test_a_step_that_comes_back_to_a_closed_handle_does_not_open_it_again():
    entered, leave = threading.Event(), threading.Event()
    closed = []

    class Env(ew.examples.CounterEnv):
        def step(self, action):
            entered.set()
            leave.wait(30)
            return super().step(action)

        def close(self):
            closed.append(1)

    env = ew.adapt(Env())
    env.reset()
    caught = []

    def step():
        try:
            env.step({"delta": 1})
        except ClosedError as error:
            caught.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    assert entered.wait(30)
    assert ends(env.close()) == ["closed"]
    leave.set()
    thread.join(30)
    assert len(caught) == 1
    assert env.close() == ()
    assert closed == [1]


@pytest.mark.parametrize("requests", [[ew.EpisodeEnd(reason="terminated")]])
def test_an_episode_cannot_end_before_it_has_begun(requests):
    class Env(ew.examples.CounterEnv):
        def reset(self):
            return ew.ResetResult(0, requests=requests)

    with pytest.raises(ew.errors.BadResultError, match="just begun"):
        ew.adapt(Env()).reset()


@pytest.mark.parametrize("name", ["agents", "deadline", "transform", "action_space", "seed", "action_type"])
def test_an_attribute_that_raises_is_the_authors_error(name):
    def broken(self):
        raise OSError("no entry")

    env = type("Env", (ew.examples.CounterEnv,), {name: property(broken)})()
    with pytest.raises(ew.EnvError, match="no entry"):
        ew.adapt(env)


def test_a_coroutine_is_not_an_observation():
    async def later():
        return 0

    class Env:
        def reset(self):
            return 0

        def step(self, action):
            return later()

    env = ew.adapt(Env())
    env.reset()
    with pytest.raises(ew.errors.BadResultError, match="step returned a coroutine"):
        env.step(0)
