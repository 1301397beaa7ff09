"""What `import envweave` gives, and what it costs."""

import subprocess
import sys

import envweave as ew


def test_the_public_names_are_sorted_few_and_really_there():
    assert ew.__all__ == sorted(ew.__all__)
    assert len(ew.__all__) <= 40
    assert all(hasattr(ew, name) for name in ew.__all__)


def test_the_import_loads_nothing_heavy():
    heavy = ("numpy", "torch", "fastapi", "docker", "pydantic", "asyncio", "typer", "rich", "gymnasium", "matplotlib")
    heavy += ("httpx", "openai")
    code = f"import sys, envweave; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_the_examples_are_found_by_attribute_and_an_unknown_name_is_an_attribute_error():
    assert ew.examples.CounterEnv.__name__ == "CounterEnv"
    assert not hasattr(ew, "no_such_name")
