"""IDs of episodes."""

import asyncio
import subprocess
import sys
from dataclasses import dataclass
from uuid import UUID

import envweave as ew
from envweave.core.episode_ids import new_episode_id
from support.child import in_child


def ids(count=1000):
    return [new_episode_id() for _ in range(count)]


def test_an_episode_id_is_a_uuid_of_version_7_that_is_ordered_by_time():
    made = ids()
    parsed = [UUID(each) for each in made]
    assert {(each.version, each.variant) for each in parsed} == {(7, "specified in RFC 4122")}
    assert [str(each) for each in parsed] == made
    times = [each.int >> 80 for each in parsed]
    assert times == sorted(times)


def test_no_two_processes_make_the_same_id():
    code = "from envweave.core.episode_ids import new_episode_id\nfor _ in range(1000): print(new_episode_id())"
    runs = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [each for run in runs for each in run.communicate(timeout=60)[0].split()]
    made += in_child(ids) + in_child(ids) + ids()
    assert len(made) == 5000
    assert len(set(made)) == 5000


@dataclass
class Own:
    episode_id: str = "from the environment"


class Told(ew.Environment[int, int]):
    """Requires the ID, and keeps a state with another one."""

    def reset(self, *, episode_id):
        self.told = episode_id
        return 0

    def step(self, action):
        return action, 0.0, action == 9, False, {}

    @property
    def state(self):
        return Own()


def test_an_environment_whose_reset_requires_the_id_gets_the_one_that_state_and_requests_have():
    with ew.adapt(Told(), autoreset=True) as env:
        env.reset()
        first = env.unwrapped.told
        assert UUID(first).version == 7
        assert env.state().episode_id == first
        end, ready, _ = env.step(9).requests
        assert end.episode_id == first
        assert ready.episode_id == env.unwrapped.told == env.state().episode_id != first
        env.reset(episode_id="mine")
        assert env.unwrapped.told == env.state().episode_id == "mine"


def test_awaited_resets_have_ids_too():
    async def main():
        async with ew.adapt(Told()).aio as env:
            await env.reset()
            return (await env.state()).episode_id == env.unwrapped.told

    assert asyncio.run(main())
