"""Proof that ships: `check_env` holds any environment against the contract."""

from envweave.testing.check import check_env
from envweave.testing.report import Finding, Report

__all__ = ["Finding", "Report", "check_env"]
