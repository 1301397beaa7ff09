"""Where an environment runs, by its ID and by what the caller says."""

import sys

import pytest

import envweave as ew
from envweave.errors import EnvWeaveError, UnavailableError, UsageError, VersionError
from envweave.registry.backends import chosen_backend, server_for

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("id", "image", "backend"),
    [
        ("docker://echo", "echo", "docker"),
        ("docker://echo:1.2", "echo:1.2", "docker"),
        ("docker://host:5000/team/echo:1.2", "host:5000/team/echo:1.2", "docker"),
        (f"docker://echo@{DIGEST}", f"echo@{DIGEST}", "docker"),
        ("k8s://team/echo:1", "team/echo:1", "kubernetes"),
        ("hf://openenv/echo_env", "registry.hf.space/openenv-echo-env:latest", "docker"),
    ],
)
def test_an_id_of_an_image_names_it_and_where_it_runs(monkeypatch, id, image, backend):
    monkeypatch.delenv("HF_SPACES_REGISTRY", raising=False)
    found = ew.spec(id)
    assert (found.image, found.backend) == (image, backend)
    assert chosen_backend(found, "auto", ("inproc",)) == backend


def test_parameters_of_an_id_are_the_factory_s():
    assert ew.spec("docker://echo:1?size=2&name=x").kwargs == {"size": 2, "name": "x"}
    assert ew.spec("docker://echo:1?size=2").image == "echo:1"


@pytest.mark.parametrize("id", ["docker://echo@1.2", "k8s://echo@latest", "hf://a/b@1"])
def test_a_version_that_is_no_digest_is_refused(id):
    with pytest.raises(VersionError):
        ew.spec(id)


@pytest.mark.parametrize("id", ["hf://space", "hf://a/../b", "hf://a/b/c", "docker://", "hf://", "k8s://"])
def test_what_names_nothing_is_refused(id):
    with pytest.raises(EnvWeaveError):
        ew.spec(id)


@pytest.mark.parametrize(
    ("backend", "error", "said"),
    [
        ("dokcer", UsageError, "did you mean 'docker'"),
        ("zzz", UsageError, "backends: auto, inproc, docker"),
        ("process", UnavailableError, "not in this version"),
        ("ray", UnavailableError, "not in this version"),
        (5, UsageError, "no backend named 5"),
        (None, UsageError, "no backend named None"),
    ],
)
def test_a_backend_that_there_is_not_is_named(backend, error, said):
    with pytest.raises(error) as caught:
        ew.make("echo", backend=backend)
    assert said in str(caught.value)


@pytest.mark.parametrize("backend", ["inproc", "subprocess"])
def test_an_image_does_not_run_without_containers(backend):
    with pytest.raises(UsageError, match="is an image"):
        ew.make("docker://echo", backend=backend)


def test_a_server_that_runs_chooses_itself_where():
    with pytest.raises(UsageError, match="decides where its environments run"):
        ew.make("http://127.0.0.1:1", backend="docker")


@pytest.mark.parametrize("options", [{"docker_image": "x"}, {"provider_options": {}}])
def test_options_of_a_server_want_one(options):
    with pytest.raises(UsageError, match="no server to start"):
        ew.make("echo", **options)
    with pytest.raises(UsageError, match="no server to start"):
        ew.make_vector("echo", 2, **options)
    with pytest.raises(UsageError, match="no server to start"):
        ew.make("http://127.0.0.1:1", **options)


@pytest.mark.parametrize(
    ("backend", "options", "said"),
    [
        ("subprocess", {"memory": "1g"}, "no option 'memory'"),
        ("subprocess", {"start_timeot": 1}, "did you mean 'start_timeout'"),
        ("subprocess", {"id": "echo"}, "no option 'id'"),
        ("subprocess", ["memory"], "provider_options is a list"),
        ("subprocess", {"command": "envweave serve"}, "command is"),
        ("docker", {"image": "x"}, "no option 'image'"),
        ("docker", {"memroy": "1g"}, "did you mean 'memory'"),
        ("docker", "memory=1g", "provider_options is a str"),
    ],
)
def test_an_option_that_a_provider_does_not_have_is_named(backend, options, said):
    if backend == "docker":
        pytest.importorskip("docker")
    with pytest.raises(UsageError) as caught:
        ew.make("echo", backend=backend, provider_options=options)
    assert said in str(caught.value)


def test_an_image_does_not_run_in_a_process():
    with pytest.raises(UsageError, match="does not run in a process"):
        ew.make("echo", backend="subprocess", docker_image="x")


def test_what_only_this_process_knows_does_not_run_in_another():
    class Local:
        def reset(self):
            return 0

        def step(self, action):
            return 0, 0.0, True, False, {}

    ew.register("only-here", Local)
    try:
        with pytest.raises(UsageError, match="known to this process only"):
            ew.make("only-here", backend="subprocess")
    finally:
        ew.unregister("only-here")


def test_what_another_process_can_import_is_named_by_its_place():
    provider = server_for(ew.spec("pkg://envweave.envs.echo:EchoEnvironment"), "subprocess").provider()
    assert provider.id == "pkg://envweave.envs.echo:EchoEnvironment"
    assert server_for(ew.spec("echo"), "subprocess").provider().id == "echo"
    assert sys.executable in provider._command()


def test_an_image_has_the_name_that_build_gives_it():
    pytest.importorskip("docker")
    spec = ew.spec("echo")
    assert server_for(spec, "docker").provider().options.image == "envweave-echo:latest"
    assert server_for(spec, "docker", "mine:1").provider().options.image == "mine:1"


@pytest.mark.parametrize("id", ["echo", "rock-paper-scissors", "pkg://envweave.envs.echo:EchoEnvironment"])
def test_the_image_of_an_id_is_the_one_that_build_makes_of_it(id):
    pytest.importorskip("docker")
    from envweave.images.target import resolve_target

    assert server_for(ew.spec(id), "docker").provider().options.image == resolve_target(id).tag


def test_a_server_of_one_s_own_takes_arguments_of_whoever_knows_its_token():
    pytest.importorskip("docker")
    server = server_for(ew.spec("echo"), "docker", None, {"env_vars": {"A": "1"}})
    assert len(server.token) > 20
    allowed = {"ENVWEAVE_ALLOW_ARGUMENTS": "1", "ENVWEAVE_ALLOW_BRANCHING": "1"}
    assert server.provider().env_vars == {**allowed, "ENVWEAVE_TOKEN": server.token, "A": "1"}
    assert server.token != server_for(ew.spec("echo"), "docker").token


@pytest.mark.parametrize("containers", [0, -1, 3, 1.5, True, "2"])
def test_containers_are_a_number_from_one_to_the_environments(containers):
    with pytest.raises(UsageError, match="containers is"):
        ew.make_vector("echo", 2, backend="subprocess", containers=containers)


def test_containers_want_a_backend_with_servers():
    with pytest.raises(UsageError, match="containers for environments that run here"):
        ew.make_vector("echo", 2, containers=1)
    with pytest.raises(UsageError, match="which runs already"):
        ew.make_vector("http://127.0.0.1:1", 2, containers=1)


@pytest.mark.parametrize("option", ["step_timeout", "max_workers"])
def test_threads_are_the_server_s_business(option):
    with pytest.raises(UsageError, match=option):
        ew.make_vector("echo", 2, backend="subprocess", **{option: 1})


def test_docker_http_is_another_name_of_docker():
    pytest.importorskip("docker")
    assert chosen_backend(ew.spec("echo"), "docker_http", ("inproc",)) == "docker"
