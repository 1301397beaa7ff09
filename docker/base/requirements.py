"""Print the dependencies in a pyproject.toml, including some extras: `requirements.py EXTRA … < pyproject.toml`."""

import re
import sys
import tomllib


def requirements(project: dict, extras: list[str]) -> list[str]:
    """An extra may include another extra of the same project: `server = ["envweave[client]", …]`."""
    same_project = re.compile(rf"{re.escape(project.get('name', ''))}\[([^]]+)\]$")
    lines = list(project.get("dependencies", ()))
    for extra in extras:
        for line in project.get("optional-dependencies", {}).get(extra, ()):
            match = same_project.match(line)
            lines += requirements({**project, "dependencies": ()}, match[1].split(",")) if match else [line]
    return lines


if __name__ == "__main__":
    print(*requirements(tomllib.loads(sys.stdin.read()).get("project", {}), sys.argv[1:]), sep="\n")
