"""The pool of threads. Gates decide when a call ends; nothing here waits for time to pass."""

import asyncio
import threading
from contextlib import contextmanager

import pytest

from envweave.server.threads import Threads


@contextmanager
def gate():
    """Open at the latest when the test is over, so that no thread is left."""
    event = threading.Event()
    try:
        yield event
    finally:
        event.set()


def playing(play, most=8, **options):
    async def run():
        threads = Threads(asyncio.get_running_loop(), most, **options)
        try:
            return await asyncio.wait_for(play(threads), 30.0)
        finally:
            threads.end()

    return asyncio.run(run())


def asked(threads, call, *, quick=False):
    """A future of the call's answer, exceptions included."""
    answer = threads.loop.create_future()
    threads.submit(call, answer.set_result, quick=quick)
    return answer


async def until(condition):
    while not condition():
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("quick", [False, True])
def test_each_call_is_run_once_and_each_answer_told_once(quick):
    ran, told = [], []

    async def play(threads):
        for number in range(1000):
            threads.submit(lambda number=number: ran.append(number) or number, told.append, quick=quick)
        await until(lambda: len(told) >= 1000)

    playing(play)
    assert sorted(ran) == sorted(told) == list(range(1000))


@pytest.mark.parametrize("quick", [False, True])
def test_calls_run_elsewhere_and_answers_come_on_the_loop(quick):
    async def play(threads):
        here, answered = threading.get_ident(), []
        answer = threads.loop.create_future()

        def done(ident):
            answered.append(threading.get_ident())
            answer.set_result(ident)

        threads.submit(threading.get_ident, done, quick=quick)
        assert await answer != here
        assert answered == [here]

    playing(play)


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), StopIteration()])
def test_whatever_a_call_raises_is_its_answer_and_the_thread_goes_on(error):
    def fail():
        raise error

    async def play(threads):
        assert await asked(threads, fail) is error
        assert await asked(threads, fail, quick=True) is error
        assert await asked(threads, lambda: 7) == 7

    playing(play, most=1)


def test_a_receiver_that_fails_does_not_cost_the_others_their_answers(caplog):
    async def play(threads):
        threads.submit(lambda: 1, lambda answer: 1 / 0)
        assert await asked(threads, lambda: 2) == 2
        await until(lambda: caplog.records)

    playing(play, most=1)
    assert "could not be delivered" in caplog.text


def test_calls_that_block_run_side_by_side():
    meeting = threading.Barrier(8, timeout=30.0)

    async def play(threads):
        await asyncio.gather(*(asked(threads, meeting.wait) for _ in range(8)))
        assert threads.count == 8

    playing(play)


def test_there_are_never_more_threads_than_allowed_and_what_waits_gets_its_turn():
    async def play(threads):
        with gate() as opened:
            blocked = [asked(threads, opened.wait) for _ in range(10)]
            assert threads.count == 3
        assert await asyncio.gather(*blocked) == [True] * 10
        assert threads.count <= 3

    playing(play, most=3)


def test_quick_calls_of_one_turn_share_a_thread():
    async def play(threads):
        idents = await asyncio.gather(*(asked(threads, threading.get_ident, quick=True) for _ in range(20)))
        assert len(set(idents)) <= 2  # a second one only where the first was held up

    playing(play)


def test_who_queues_behind_a_call_that_was_quick_and_is_not_is_taken_over():
    async def play(threads):
        with gate() as opened:
            held = asked(threads, opened.wait, quick=True)
            others = [asked(threads, lambda n=n: n, quick=True) for n in range(20)]
            assert await asyncio.gather(*others) == list(range(20))
            assert not held.done()
        assert await held

    playing(play)


def test_an_answer_is_told_though_the_thread_that_has_it_is_held_up_by_the_next_quick_call():
    async def play(threads):
        with gate() as opened:
            ready = asked(threads, lambda: "ready", quick=True)
            held = asked(threads, opened.wait, quick=True)
            assert await ready == "ready"
            assert not held.done()
        assert await held

    playing(play, most=1)


def test_a_call_that_may_block_does_not_wait_for_one_that_does():
    async def play(threads):
        with gate() as opened:
            held = [asked(threads, opened.wait, quick=quick) for quick in (True, False, True, False)]
            assert await asked(threads, lambda: 7) == 7
            assert not any(one.done() for one in held)
        await asyncio.gather(*held)

    playing(play)


def test_run_gives_the_answer_or_raises_it():
    async def play(threads):
        assert await threads.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 / 0)

    playing(play)


def test_what_comes_too_late_goes_to_whoever_cleans_up():
    late = []

    async def play(threads):
        with gate() as opened:
            waiting = asyncio.ensure_future(threads.run(lambda: opened.wait() and "built", late=late.append))
            await until(lambda: threads.count == 1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert late == []
        await until(lambda: late)

    playing(play)
    assert late == ["built"]


def test_what_fails_too_late_is_forgotten():
    late = []

    async def play(threads):
        with gate() as opened:
            waiting = asyncio.ensure_future(threads.run(lambda: opened.wait() and 1 / 0, late=late.append))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await asked(threads, lambda: 7)

    playing(play, most=1)
    assert late == []


def test_threads_with_nothing_to_do_retire_and_others_come_when_they_are_needed():
    async def play(threads):
        assert await asked(threads, lambda: 1) == 1
        await until(lambda: threads.count == 0)
        assert await asked(threads, lambda: 2, quick=True) == 2
        await until(lambda: threads.count == 0)

    playing(play, retire_after=0.01)


def test_no_call_is_lost_while_threads_retire():
    async def play(threads):
        for number in range(300):
            assert await asked(threads, lambda number=number: number, quick=bool(number % 2)) == number

    playing(play, most=2, retire_after=0.00001)


def test_after_the_end_no_thread_is_left():
    async def play(threads):
        await asyncio.gather(*(asked(threads, lambda: 1) for _ in range(5)))
        threads.end()
        await until(lambda: threads.count == 0)

    playing(play)


def test_a_thread_that_outlives_its_loop_ends_by_itself():
    with gate() as opened:
        made = []

        async def play(threads):
            made.append(threads)
            threads.submit(opened.wait, lambda answer: None)
            await until(lambda: threads.count == 1)

        playing(play)
        (thread,) = made[0]._alive
    thread.join(30.0)
    assert not thread.is_alive()
