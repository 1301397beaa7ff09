"""Transports that lose something."""

from dataclasses import replace

import pytest

import envweave as ew
from envweave.errors import EnvError, UsageError
from envweave.testing.suites import TransportSuite
from envweave.testing.suites.quiz import QuizEnv


def over(middleware):
    return lambda name, **options: ew.make(name, **options).with_middleware(middleware)


def losing_requests(kind, data):
    reply = yield kind, data
    return replace(reply, requests=()) if kind == "step" else reply


def rounding(kind, data):
    reply = yield kind, data
    is_scored = kind == "step" and isinstance(reply.reward, float)
    return replace(reply, reward=round(reply.reward, 1)) if is_scored else reply


def translating_errors(kind, data):
    try:
        return (yield kind, data)
    except UsageError as error:
        raise EnvError(error.message, error.hint) from error


def with_one_seed(kind, data):
    return (yield kind, {**data, "seed": 3} if kind == "reset" else data)


def counting_tasks_from_one(kind, data):
    if kind == "reset" and isinstance(data.get("task"), int):
        data = {**data, "task": data["task"] - 1}
    return (yield kind, data)


def listing_answers(kind, data):
    reply = yield kind, data
    if kind == "tasks":
        reply["tasks"] = [dict(QuizEnv.tasks[task["id"]]) for task in reply["tasks"]]
    return reply


class TestLosesRequests(TransportSuite):
    @pytest.fixture
    def connect(self):
        return over(losing_requests)


class TestRounds(TransportSuite):
    @pytest.fixture
    def connect(self):
        return over(rounding)


class TestTranslatesErrors(TransportSuite):
    @pytest.fixture
    def connect(self):
        return over(translating_errors)


class TestUsesOneSeed(TransportSuite):
    @pytest.fixture
    def connect(self):
        return over(with_one_seed)


class TestCountsTasksFromOne(TransportSuite):
    @pytest.fixture
    def connect(self):
        return over(counting_tasks_from_one)


class TestListsAnswers(TransportSuite):
    @pytest.fixture
    def connect(self):
        return over(listing_answers)


class TestIgnoresAutoreset(TransportSuite):
    @pytest.fixture
    def connect(self):
        return lambda name, autoreset=False, **options: ew.make(name, **options)


class TestDefinesNothing(TransportSuite):
    pass
