"""One environment behind the wire, without a wire."""

import pytest

from envweave.core.flow import call_it, run
from envweave.core.local import open_local
from envweave.core.spec import EnvSpec
from envweave.plan import EnvPlan
from envweave.requests import LogEvent
from envweave.results import StepResult
from envweave.server.host import Form, Host
from envweave.server.shelf import SessionShelf
from envweave.wire.codec import decode

FORMS = pytest.mark.parametrize("form", Form, ids=lambda form: form.value)


class Obedient:
    """Returns what it is told to."""

    def __init__(self):
        self.closed = 0

    def reset(self, *, seed=None, give=None):
        return RESETS.get(give, 0)

    def step(self, action):
        return STEPS.get(action, action)

    def close(self):
        self.closed += 1


RESETS = {"object": {"deep": [object()]}}
STEPS = {
    "observation": ({"deep": [0, object()]}, 1.0, False, False, {}),
    "last": ({"deep": object()}, 1.0, True, False, {}),
    "surrogate": ("a\ud800", 1.0, False, False, {}),
    "info": (0, 1.0, False, False, {"k": {1}}),
    "request": StepResult(0, 1.0, requests=(LogEvent(name="l", payload={"p": b""}),)),
    "end": (0, 1.0, True, False, {}),
    "badly end": (0, 1.0, True, False, {"k": {1}}),
}


@pytest.fixture
def host():
    plan = EnvPlan(EnvSpec(id="obedient", factory=Obedient))
    return Host(open_local(plan, "obedient#0"), SessionShelf({}))


def ask(host, call, data=None, form=Form.EXTENDED):
    reply = run(host.handling(call, {} if data is None else data, form), call_it)
    return reply, decode(reply.body)


def ends(data):
    return [(one["reason"], one["episode_id"]) for one in data.get("requests", ()) if one["kind"] == "episode_end"]


def quickly(host, action, form):
    reply = host.step(action, form)
    return reply, decode(reply.body)


def usually(host, action, form):
    return ask(host, "step", action, form)


WAYS = pytest.mark.parametrize("step", [quickly, usually])


def lives_on(host, form):
    """A new episode, with nothing left over from the one before."""
    reply, data = ask(host, "reset", form=form)
    assert (reply.type, data["observation"]) == ("observation", 0)
    assert ends(data) == []
    reply, data = quickly(host, 7, form)
    assert (reply.type, data["observation"], ends(data)) == ("observation", 7, [])


@WAYS
@FORMS
@pytest.mark.parametrize(
    ("action", "field"),
    [
        ("observation", "observation.deep[1] is a object"),
        ("surrogate", "text with a lone surrogate: 'a\\ud800'"),
    ],
)
def test_a_result_without_json_form_ends_the_episode_once_and_names_the_field(host, step, form, action, field):
    _, begun = ask(host, "reset", {"episode_id": "mine"})
    assert begun["episode_id"] == "mine"
    reply, data = step(host, action, form)
    assert (reply.type, reply.code, reply.episode) == ("error", "env.not_jsonable", None)
    assert data["message"].startswith(field)
    assert ends(data) == [("infra_error", "mine")]
    reply, data = step(host, 1, form)
    assert (reply.code, ends(data)) == ("usage.reset_needed", [])
    lives_on(host, form)


@WAYS
@pytest.mark.parametrize(
    ("action", "field"), [("info", "info.k is a set"), ("request", "requests[0].payload.p is a b")]
)
def test_so_does_what_only_the_extension_tells(host, step, action, field):
    ask(host, "reset", {"episode_id": "mine"})
    reply, data = step(host, action, Form.EXTENDED)
    assert reply.code == "env.not_jsonable"
    assert data["message"].startswith(field)
    assert ends(data) == [("infra_error", "mine")]
    lives_on(host, Form.EXTENDED)


@WAYS
@pytest.mark.parametrize(("action", "form"), [("last", form) for form in Form] + [("badly end", Form.EXTENDED)])
def test_an_episode_whose_last_result_has_no_json_form_ends_once_too(host, step, action, form):
    ask(host, "reset", {"episode_id": "mine"})
    reply, data = step(host, action, form)
    assert (reply.code, reply.episode) == ("env.not_jsonable", None)
    assert ends(data) == [("terminated", "mine")]
    lives_on(host, form)


@FORMS
def test_a_reset_without_json_form_ends_its_episode_once(host, form):
    reply, data = ask(host, "reset", {"give": "object", "episode_id": "mine"}, form)
    assert (reply.code, reply.episode) == ("env.not_jsonable", None)
    assert data["message"].startswith("observation.deep[0] is a object")
    assert ends(data) == [("infra_error", "mine")]
    lives_on(host, form)


def test_a_reply_says_which_episode_is_under_way(host):
    assert ask(host, "reset", {"episode_id": "mine"})[0].episode == "mine"
    assert quickly(host, 1, Form.EXTENDED)[0].episode == "mine"
    reply, data = quickly(host, "end", Form.EXTENDED)
    assert (reply.episode, ends(data)) == (None, [("terminated", "mine")])


@pytest.mark.parametrize(
    ("data", "code"),
    [
        ({"seed": "x"}, "usage"), ({"seed": True}, "usage"), ({"seed": 1.5}, "usage"), ({"episode_id": 7}, "usage"),
        ({"options": []}, "usage"), ({"colour": 1}, "usage"), ([], "transport.protocol"), ("x", "transport.protocol"),
    ],
)  # fmt: skip
def test_a_reset_that_does_not_fit_changes_nothing(host, data, code):
    ask(host, "reset", {"episode_id": "mine"})
    reply, _ = ask(host, "reset", data)
    assert (reply.type, reply.code, reply.episode) == ("error", code, "mine")
    assert quickly(host, 7, Form.EXTENDED)[1]["observation"] == 7


def test_a_seed_may_be_written_with_a_decimal_point(host):
    assert ask(host, "reset", {"seed": 3.0})[0].type == "observation"


def test_close_gives_the_end_of_an_unfinished_episode_and_comes_once(host):
    ask(host, "reset", {"episode_id": "mine"})
    reply, data = ask(host, "close")
    assert (reply.type, ends(data)) == ("closed", [("closed", "mine")])
    assert host.flows.env.closed == 1


def test_an_environment_that_is_not_owned_is_not_closed():
    plan = EnvPlan(EnvSpec(id="obedient", factory=Obedient))
    lent = Host(open_local(plan, "obedient#0"), SessionShelf({}), owned=False)
    ask(lent, "reset", {"episode_id": "mine"})
    reply, data = ask(lent, "close")
    assert (reply.type, ends(data)) == ("closed", [("closed", "mine")])
    assert lent.flows.env.closed == 0
