"""Proof that ships: `check_env` holds any environment against the contract, `running_server` serves one for a test."""

from envweave.testing.check import check_env
from envweave.testing.report import Finding, Report
from envweave.testing.serving import running_server

__all__ = ["Finding", "Report", "check_env", "running_server"]
