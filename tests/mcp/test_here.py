"""Says why the tests of this folder are not run, where they are not."""

from envweave.errors import UnavailableError
from envweave.tools.mcp.requirement import require_mcp
from support.need import need


def test_the_mcp_package_is_here():
    try:
        require_mcp()
    except UnavailableError as error:
        need("mcp", f"{error.message}: the tests of MCP run in .venv-mcp, `make test` makes it")
