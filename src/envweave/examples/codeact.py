"""CodeAct step by step: code as action, errors as observations, tools, and rewards from transforms.

python -m envweave.examples.codeact
"""

from __future__ import annotations

from envweave.codeact import (
    CodeActEnvironment,
    CodeAction,
    ToolRegistry,
    create_codeact_env,
    create_math_env_transform,
    create_mcp_environment,
    create_safe_env_transform,
)


def main() -> int:
    show_variables()
    show_errors()
    show_tools()
    show_files()
    show_math_rewards()
    show_safety_rewards()
    return 0


def run(env: CodeActEnvironment, code: str) -> None:
    """One step, printed as a Python prompt would show it."""
    print(">>>", code.replace("\n", "\n... "))
    observation = env.step(CodeAction(code=code))
    seen = observation.execution_result
    print(seen.stdout, end="")
    if seen.return_value is not None:
        print(repr(seen.return_value))
    if seen.exception is not None:
        print(f"{seen.exception.type}: {seen.exception.message}")
    if observation.reward is not None:
        print(f"reward {observation.reward:+.1f}")


def show_variables() -> None:
    print("# Variables last until the next reset.")
    with create_codeact_env() as env:
        env.reset()
        run(env, "x = 10\ny = 20\nresult = x * y\nprint(f'Result: {result}')\nresult")
        run(env, "math.sqrt(result + 56)")
        print(f"state: {env.state.variables}")


def show_errors() -> None:
    print("\n# An exception is an observation, and the episode continues.")
    with create_codeact_env() as env:
        env.reset()
        run(env, "kept = 1\n1 / 0")
        run(env, "kept")


def show_tools() -> None:
    print("\n# Tools are functions that run outside of the sandbox.")

    def word_count(text: str) -> int:
        """Count the words of a text."""
        return len(text.split())

    with create_codeact_env(tools=ToolRegistry([word_count])) as env:
        env.reset()
        run(env, "word_count('an agent acts by writing code')")


def show_files() -> None:
    print("\n# Without servers, an MCP environment has tools for files: the episode's folder, and its own /tmp.")
    with create_mcp_environment() as env:
        env.reset()
        run(env, "file_write('/tmp/hello.txt', 'Hello from CodeAct')\nfile_read('/tmp/hello.txt')")


def show_math_rewards() -> None:
    print("\n# A transform computes the reward, outside of the sandbox. The first step begins an episode by itself,")
    print("# and the first answer ends it.")
    with create_codeact_env() as env:
        env.transform = create_math_env_transform(expected_answer=42)
        run(env, "x = 21")
        run(env, "x * 2")


def show_safety_rewards() -> None:
    print("\n# Another one punishes dangerous code.")
    with create_codeact_env(transform=create_safe_env_transform()) as env:
        env.reset()
        run(env, "import os\nos.system('true')")


if __name__ == "__main__":
    raise SystemExit(main())
