"""What can be chosen for a container, and what cannot."""

from math import inf, nan
from pathlib import Path

import pytest

from envweave.errors import UsageError
from envweave.providers.container import ContainerOptions


def chosen(**options):
    found = ContainerOptions.chosen({"image": "echo", **options})
    found.check()
    return found


@pytest.mark.parametrize(
    ("name", "near"), [("env_var", "env_vars"), ("volume", "volumes"), ("cpu", "cpus"), ("hostport", "host_port")]
)
def test_an_option_that_there_is_not_is_answered_with_the_nearest(name, near):
    with pytest.raises(UsageError, match=f"(?s)no option '{name}'.*did you mean '{near}'"):
        chosen(**{name: 1})


def test_an_option_like_no_other_is_answered_with_all_there_are():
    with pytest.raises(UsageError, match=r"(?s)no option 'zzz'.*options: image, command"):
        chosen(zzz=1)


@pytest.mark.parametrize(
    "options",
    [
        {"image": ""},
        {"image": None},
        {"image": 5},
        {"network": "none"},
        {"pull": "sometimes"},
        {"cpus": 0},
        {"cpus": -1},
        {"cpus": nan},
        {"cpus": inf},
        {"cpus": "2"},
        {"pids": 0},
        {"pids": 2.5},
        {"port": 0},
        {"port": 80.5},
        {"port": "8000"},
        {"host_port": -1},
        {"command": "--max-sessions 2"},
        {"env_vars": ["A=1"]},
        {"env_vars": {"": "1"}},
        {"env_vars": {"A=B": "1"}},
        {"volumes": "/a:/b"},
        {"volumes": {"/a": 5}},
        {"volumes": {"/a": None}},
        {"tmpfs": ["/tmp"]},
        {"tmpfs": {"/tmp": 64}},
        {"extra": 5},
    ],
)
def test_what_could_not_work_is_refused_by_name(options):
    with pytest.raises(UsageError) as caught:
        chosen(**options)
    name = next(iter(options))
    assert any(word in caught.value.message for word in (name, "image", "network", "variable"))


def test_none_is_as_good_as_left_out():
    assert chosen(env_vars=None, volumes=None, tmpfs=None, extra=None) == chosen()


def test_options_of_a_start_go_over_those_of_the_provider():
    base = ContainerOptions.chosen({"image": "a", "memory": "1g", "cpus": 1})
    over = ContainerOptions.chosen({"cpus": 2}, base)
    assert (over.image, over.memory, over.cpus) == ("a", "1g", 2)


def test_what_the_sdk_is_given_has_nothing_but_what_was_chosen(monkeypatch):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    given = chosen().for_docker({"envweave.owner": "1"})
    assert given == {
        "image": "echo",
        "environment": {},
        "volumes": {},
        "read_only": False,
        "tmpfs": {},
        "ports": {"8000/tcp": ("127.0.0.1", None)},
        "labels": {"envweave.owner": "1"},
    }


@pytest.mark.parametrize(
    ("target", "bind"),
    [
        ("/data", {"bind": "/data", "mode": "rw"}),
        ("/data:ro", {"bind": "/data", "mode": "ro"}),
        ("/data:rw", {"bind": "/data", "mode": "rw"}),
        ("/da:ta", {"bind": "/da:ta", "mode": "rw"}),
    ],
)
def test_a_volume_is_read_only_if_it_says_so(target, bind):
    assert chosen(volumes={"/here": target}).for_docker({})["volumes"] == {"/here": bind}


def test_a_volume_may_be_a_path():
    assert chosen(volumes={Path("/here"): "/there"}).for_docker({})["volumes"][Path("/here")]["bind"] == "/there"


@pytest.mark.parametrize("far", ["tcp://far:2375", "ssh://me@far", "https://far:2376"])
@pytest.mark.parametrize("by", ["option", "variable"])
def test_on_a_daemon_of_another_machine_ports_are_published_for_others_too(monkeypatch, far, by):
    monkeypatch.setenv("DOCKER_HOST", far if by == "variable" else "unix:///here")
    options = chosen(docker_host=far if by == "option" else None, host_port=99)
    assert options.for_docker({})["ports"] == {"8000/tcp": 99}


def test_on_the_network_of_the_machine_nothing_is_published():
    given = chosen(network="host").for_docker({})
    assert given["ports"] == {}
    assert given["network_mode"] == "host"
    assert "network" not in given


def test_extra_wins_but_for_our_labels():
    extra = {"mem_limit": "2g", "labels": {"a": "b", "envweave.owner": "forged"}}
    given = chosen(memory="1g", extra=extra).for_docker({"envweave.owner": "1"})
    assert given["mem_limit"] == "2g"
    assert given["labels"] == {"a": "b", "envweave.owner": "1"}


def test_secrets_are_not_shown():
    assert "hunter2" not in repr(chosen(env_vars={"KEY": "hunter2"}))
