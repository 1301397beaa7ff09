"""What a pyproject.toml asks for, with some of its extras, a line each: `requirements.py EXTRA … < pyproject.toml`."""

import re
import sys
import tomllib


def requirements(project: dict, extras: list[str]) -> list[str]:
    """An extra may name others of its own project: `server = ["envweave[client]", …]`."""
    own = re.compile(rf"{re.escape(project.get('name', ''))}\[([^]]+)\]$")
    found = list(project.get("dependencies", ()))
    for extra in extras:
        for line in project.get("optional-dependencies", {}).get(extra, ()):
            named = own.match(line)
            found += requirements({**project, "dependencies": ()}, named[1].split(",")) if named else [line]
    return found


if __name__ == "__main__":
    print(*requirements(tomllib.loads(sys.stdin.read()).get("project", {}), sys.argv[1:]), sep="\n")
