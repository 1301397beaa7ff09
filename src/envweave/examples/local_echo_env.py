"""The echo environment on a server, driven by its typed client.

    python -m envweave.examples.local_echo_env                     # starts a server of its own
    python -m envweave.examples.local_echo_env --url http://…      # uses one that runs
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.testing.serving import running_server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Talk to an echo server.")
    parser.add_argument("--url", help="a server that runs already, e.g. http://localhost:8000")
    url = parser.parse_args(arguments).url
    with nullcontext() if url else running_server("echo") as served:
        talk(url or served.url)
    return 0


def talk(url: str) -> None:
    print(f"the server is at {url}")
    with EchoEnv(base_url=url) as env:
        result = env.reset()
        print(f"reset: {result.observation.echoed_message}")
        for message in ("Hello, World!", "a longer message earns more", ""):
            result = env.step(EchoAction(message=message))
            seen = result.observation
            print(f"step:  {seen.echoed_message!r}, {seen.message_length} characters, reward {result.reward}")
        print(f"state: {env.state()}")


if __name__ == "__main__":
    raise SystemExit(main())
