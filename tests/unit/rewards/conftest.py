"""Observations of code that was run, as the CodeAct environment makes them."""

from dataclasses import dataclass, field

import pytest

import envweave as ew
from envweave.sandbox import ExecutionResult


@dataclass
class Ran(ew.Observation):
    execution_result: ExecutionResult = field(default_factory=ExecutionResult)


@pytest.fixture(scope="session")
def ran():
    def make(value=None, *, code="pass", stdout="", success=True, **fields):
        result = ExecutionResult(return_value=value, stdout=stdout, success=success, exit_code=0 if success else 1)
        return Ran(execution_result=result, metadata={"last_code": code}, **fields)

    return make
