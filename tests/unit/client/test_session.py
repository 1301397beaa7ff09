import asyncio

import pytest

from envweave.client.session import PendingCall
from envweave.errors import BusyError, EnvError, WaitTimeoutError


def test_a_wait_that_times_out_or_is_cancelled_loses_nothing():
    async def play():
        call = PendingCall("step")
        with pytest.raises(WaitTimeoutError, match="step within 0 s"):
            await call.wait(0)
        waiting = asyncio.ensure_future(call.wait(None))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await call.wait(None)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not call.awaited
        call.answer("there")
        await call.wait(0)
        return call.result()

    assert asyncio.run(play()) == "there"


def test_an_error_is_raised_where_the_answer_is_read():
    async def play():
        call = PendingCall("step")
        asyncio.get_running_loop().call_soon(call.answer, None, EnvError("no"))
        await call.wait(None)
        with pytest.raises(EnvError, match="no"):
            call.result()

    asyncio.run(play())


def test_whoever_does_not_wait_is_called():
    seen = []
    call = PendingCall("step")
    call.then = seen.append
    call.answer(1)
    assert seen == [call]
