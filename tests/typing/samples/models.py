"""What a user of language models writes. Lines that end in `# error` must be refused, all others must pass."""

from typing import assert_type

from envweave.lm import FunctionCall, LanguageModel, Message, Reply, ReplyDelta


def ask(model: LanguageModel) -> None:
    plain = [{"role": "user", "content": "hi"}]
    assert_type(model.reply(plain, temperature=0, max_tokens=5, stop=["\n"]), Reply)
    assert_type(
        model.reply([Message("user", "hi"), {"role": "user", "content": "ho"}]).tool_calls, tuple[FunctionCall, ...]
    )
    assert_type(model.replies(plain, 4), tuple[Reply, ...])
    assert_type(model.chat(plain, model="other", extra_body={"top_k": 5}), str)
    assert_type(list(model.stream(plain)), list[ReplyDelta])
    model.reply(plain, temperature="hot")  # error
    model.reply(plain, max_token=5)  # error
    model.reply("hi")  # error
    LanguageModel("m", base_url="http://127.0.0.1/v1", api_key="k", max_concurrency=4, seed=1)
    LanguageModel("m", base_url="http://127.0.0.1/v1", at_once=4)  # error


async def ask_async(model: LanguageModel) -> None:
    plain = [Message("user", "hi")]
    assert_type(await model.aio.reply(plain, logprobs=True), Reply)
    async with model.aio.stream(plain) as stream:
        assert_type([delta async for delta in stream], list[ReplyDelta])
    await model.aio.reply(plain, seed="x")  # error
