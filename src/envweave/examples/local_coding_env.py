"""Run code in the coding environment on a server, with its typed client.

python -m envweave.examples.local_coding_env                     # starts its own server
python -m envweave.examples.local_coding_env --url http://…      # uses a running server
"""

from __future__ import annotations

import argparse

from envweave.envs.coding import CodeAction, CodingEnv
from envweave.errors import UnsupportedError
from envweave.testing.serving import running_server

STEPS = (
    "print('Hello, World!')",
    "numbers = [3, 1, 2]\nsorted(numbers)",
    "numbers.append(10)\nprint(sum(numbers))",
    "1 / 0",
    "import os",
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run code in the coding environment.")
    parser.add_argument("--url", help="a running server, e.g. http://localhost:8000")
    url = parser.parse_args(arguments).url
    if url:
        run(url)
    else:
        with running_server("coding", "--allow-branching") as server:
            run(server.url)
    return 0


def run(url: str) -> None:
    print(f"the server is at {url}")
    with CodingEnv(base_url=url) as env:
        env.reset()
        for code in STEPS:
            result = env.step(CodeAction(code=code))
            seen = result.observation
            print(f"\n>>> {code}".replace("\n", "\n... ").replace("\n... >>>", "\n>>>"))
            print(seen.stdout + seen.stderr, end="")
            print(f"exit code {seen.exit_code}, reward {result.reward}")
        try:
            with env.fork() as branch:
                said = branch.step(CodeAction(code="print(numbers)")).observation.stdout
                print("\na fork has the variables:", said, end="")
        except UnsupportedError as error:  # a server without --allow-branching
            print(f"\n{error}")
        print(f"state: {env.state()}")


if __name__ == "__main__":
    raise SystemExit(main())
