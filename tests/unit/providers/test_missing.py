import subprocess
import sys

import pytest


@pytest.mark.parametrize(("package", "name"), [("kubernetes", "KubernetesProvider"), ("docker", "LocalDockerProvider")])
def test_a_provider_whose_package_is_missing_says_how_to_get_it(package, name):
    code = f"""
import sys
sys.modules[{package!r}] = None  # as if it were not installed
import envweave.providers
from envweave.errors import UnavailableError
try:
    envweave.providers.{name}
except UnavailableError as error:
    assert error.hint == "pip install 'envweave[{package}]'"
else:
    raise SystemExit("it is there")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
