"""Use the echo environment on a server, with its typed client.

python -m envweave.examples.local_echo_env                     # starts its own server
python -m envweave.examples.local_echo_env --url http://…      # uses a running server
"""

from __future__ import annotations

import argparse

from envweave.envs.echo import EchoAction, EchoEnv
from envweave.testing.serving import running_server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Talk to an echo server.")
    parser.add_argument("--url", help="a running server, e.g. http://localhost:8000")
    url = parser.parse_args(arguments).url
    if url:
        talk(url)
    else:
        with running_server("echo") as server:
            talk(server.url)
    return 0


def talk(url: str) -> None:
    print(f"the server is at {url}")
    with EchoEnv(base_url=url) as env:
        begun = env.reset()
        print(f"reset: {begun.observation.echoed_message}")
        for message in ("Hello, World!", "a longer message earns more", ""):
            result = env.step(EchoAction(message=message))
            seen = result.observation
            print(f"step:  {seen.echoed_message!r}, {seen.message_length} characters, reward {result.reward}")
        print(f"state: {env.state()}")


if __name__ == "__main__":
    raise SystemExit(main())
