"""`TokenPolicy` and `ChatTemplate`: what was drawn is never encoded again."""

import asyncio
import importlib.util
from itertools import pairwise
from pathlib import Path

import pytest

import envweave as ew
from envweave.errors import UsageError
from envweave.lm.tokens import Drawn
from envweave.rollouts import Conversation, TokenPolicy
from support.need import need

if importlib.util.find_spec("renderers") is None or importlib.util.find_spec("transformers") is None:
    need("transformers", "transformers or renderers is not installed")

from support.tiny_model import CHATML, tiny_tokenizer

TEMPLATES = Path(next(iter(importlib.util.find_spec("trl").submodule_search_locations))) / "chat_templates"
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add one.",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
}
CALL = '<tool_call>\n{"name": "add", "arguments": {"x": 1}}\n</tool_call>'
CALL_IN_OTHER_SPACING = '<tool_call>{"name":"add","arguments":{"x":1}}</tool_call>'
QUESTIONS = [[{"role": "user", "content": text}] for text in ("one", "two", "three")]
TOOL_RESULT = [{"role": "tool", "content": "2", "tool_call_id": "c"}]
REPLIES = ("hello", " some  text ", "bye")


class Says:
    """Draws the tokens of prepared texts, in tokens that no encoding of the whole text would give."""

    def __init__(self, tokenizer, texts, *, cut=False):
        self.tokenizer, self.texts, self.cut = tokenizer, list(texts), cut
        self.limits = []

    async def sample(self, prompt, *, max_tokens, stop):
        self.limits.append(max_tokens)
        marks = set(self.tokenizer.all_special_ids)
        ids = []
        for token in self.tokenizer.encode(self.texts.pop(0), add_special_tokens=False):
            text = self.tokenizer.decode([token])
            if token in marks or "\ufffd" in text:
                ids.append(token)
            else:
                ids += [one for letter in text for one in self.tokenizer.encode(letter, add_special_tokens=False)]
        ids = ids if self.cut else [*ids, stop[0]]
        return Drawn(tuple(ids), (-1.0,) * len(ids), 7)


def play(template, texts, turns, *, cut=False, tools=(), **options):
    """The replies to these turns, and whether each prompt continues the last reply."""
    tokenizer = tiny_tokenizer(template)
    policy = TokenPolicy(Says(tokenizer, texts, cut=cut), tokenizer, **options)
    conversation, replies = Conversation(), []

    async def run():
        for new in turns:
            conversation.hear(new, list(tools))
            replies.append(await policy.reply(conversation.copy()))
            conversation.say(replies[-1])

    asyncio.run(run())
    continued = [continues(*pair) for pair in pairwise(replies)]
    return replies, continued, tokenizer, conversation.messages


def continues(last, reply):
    so_far = last.prompt_token_ids + last.token_ids
    return reply.prompt_token_ids[: len(so_far)] == so_far


def rendered(tokenizer, messages, **options):
    return tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **options)


def test_a_prompt_continues_what_was_drawn_token_by_token():
    replies, continued, tokenizer, messages = play(CHATML, REPLIES, QUESTIONS)
    assert continued == [True, True]
    assert tokenizer.decode(replies[2].prompt_token_ids) == rendered(tokenizer, messages[:-1])
    again = tokenizer.encode(rendered(tokenizer, messages[:-1]), add_special_tokens=False)
    assert tuple(again) != replies[2].prompt_token_ids  # encoding again would have given other tokens
    assert [reply.finish_reason for reply in replies] == ["stop"] * 3
    assert {reply.policy_version for reply in replies} == {7}
    assert replies[1].text == " some  text "


def test_a_reply_that_was_cut_off_is_closed_by_a_token_that_was_not_drawn():
    replies, continued, tokenizer, _ = play(CHATML, REPLIES, QUESTIONS, cut=True)
    assert continued == [True, True]
    assert [reply.finish_reason for reply in replies] == ["length"] * 3
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert end not in replies[0].token_ids
    assert replies[1].prompt_token_ids[len(replies[0].prompt_token_ids) + len(replies[0].token_ids)] == end


def test_a_template_that_rewrites_history_begins_a_new_prompt():
    shouting = CHATML.replace("message['content'] + '<|im_end|>", "(message['content'] | upper) + '<|im_end|>")
    replies, continued, tokenizer, messages = play(shouting, REPLIES, QUESTIONS)
    assert continued == [False, False]
    assert tokenizer.decode(replies[2].prompt_token_ids) == rendered(tokenizer, messages[:-1])


def test_a_template_that_drops_thoughts_at_the_next_question_begins_a_new_prompt():
    forgetful = (
        "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
        "{% if message.reasoning_content and loop.last %}{{ '<think>' + message.reasoning_content + '</think>' }}"
        "{% endif %}{{ message['content'] + '<|im_end|>\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    )
    replies, continued, *_ = play(forgetful, ["<think>hm</think>hello", "some text", "bye"], QUESTIONS)
    assert (replies[0].reasoning, replies[0].text) == ("hm", "hello")
    assert continued == [False, True]


def test_thoughts_stay_where_the_template_does_not_know_of_them():
    replies, continued, tokenizer, _ = play(CHATML, ["<think>hm</think>hello", *REPLIES[1:]], QUESTIONS)
    assert replies[0].reasoning == "hm"
    assert continued == [True, True]
    assert "<think>hm</think>hello<|im_end|>" in tokenizer.decode(replies[2].prompt_token_ids)


@pytest.mark.parametrize("call", [CALL, CALL_IN_OTHER_SPACING])
def test_tool_calls_are_read_and_continued_as_they_were_drawn(call):
    template = (TEMPLATES / "qwen3_training.jinja").read_text()
    replies, continued, tokenizer, _ = play(
        template, [call, "some text", "bye"], [QUESTIONS[0], TOOL_RESULT, QUESTIONS[1]], tools=[TOOL]
    )
    assert [(one.name, one.parse()) for one in replies[0].tool_calls] == [("add", {"x": 1})]
    assert replies[0].finish_reason == "tool_calls"
    assert continued == [True, True]
    assert call in tokenizer.decode(replies[1].prompt_token_ids)


def test_a_call_that_cannot_be_read_stays_in_the_text():
    template = (TEMPLATES / "qwen3_training.jinja").read_text()
    broken = '<tool_call>\n{"name": "add", "arg\n</tool_call>'
    replies, *_ = play(template, [broken], QUESTIONS[:1], tools=[TOOL])
    assert replies[0].tool_calls == ()
    assert '"arg' in replies[0].text


def test_other_tools_begin_a_new_prompt():
    template = (TEMPLATES / "qwen3_training.jinja").read_text()
    tokenizer = tiny_tokenizer(template)
    policy = TokenPolicy(Says(tokenizer, REPLIES), tokenizer)
    conversation, replies = Conversation(), []

    async def run():
        for question, tools in zip(QUESTIONS, ([TOOL], [TOOL], []), strict=True):
            conversation.hear(question, tools)
            replies.append(await policy.reply(conversation.copy()))
            conversation.say(replies[-1])

    asyncio.run(run())
    assert [continues(*pair) for pair in pairwise(replies)] == [True, False]
    assert "add" not in tokenizer.decode(replies[2].prompt_token_ids)


REWRITING = {"qwen3_5_nothink", "qwen3_5_think", "qwen3_6"}
REWRITING_FAMILIES = ("deepseek", "gptoss", "muse", "nemotron")
"""Templates of TRL that change plain replies."""
WITH_PARTS = ("idefics", "llava", "smolvlm")
"""Beginnings of the names of those that read contents as lists of parts."""


@pytest.mark.parametrize("name", sorted(path.stem for path in TEMPLATES.glob("*.jinja")))
def test_with_each_template_of_trl_prompts_continue_or_a_new_sequence_starts(name):
    template = (TEMPLATES / f"{name}.jinja").read_text()
    thoughts = ["<think>\nhm\n</think>\n\nhello", "<think>\nah\n</think>\n\nsome text", "bye"]
    for texts in (REPLIES, thoughts):
        for cut in (False, True):
            replies, continued, tokenizer, messages = play(template, texts, QUESTIONS, cut=cut)
            if texts is REPLIES:
                assert continued == [name not in REWRITING and not name.startswith(REWRITING_FAMILIES)] * 2
            if name.startswith(WITH_PARTS):
                messages = [
                    {**each, "content": [{"type": "text", "text": each["content"]}]} for each in joined(messages)
                ]
            elif "reasoning_content" not in template:
                messages = joined(messages)
            check_prompts(replies, continued, tokenizer, messages)


def check_prompts(replies, continued, tokenizer, messages):
    """A new prompt is the template's own. One that continues has the template's text after what was drawn."""
    place = 0
    for number, reply in enumerate(replies):
        place += 1 + bool(number)
        text = tokenizer.decode(reply.prompt_token_ids)
        wanted = rendered(tokenizer, messages[:place])
        if not number or not continued[number - 1]:
            assert reply.prompt_token_ids == tuple(tokenizer.encode(text, add_special_tokens=False))
        question = QUESTIONS[number][0]["content"]
        assert text.rpartition(question)[1:] == wanted.rpartition(question)[1:]


def joined(messages):
    """Thoughts as the beginnings of texts."""
    return [
        {**each, "content": f"<think>{each['reasoning_content']}</think>{each['content']}"}
        if each.get("reasoning_content")
        else each
        for each in messages
    ]


def test_samples_of_an_episode_are_one_sequence_where_prompts_continue():
    tokenizer = tiny_tokenizer()
    policy = TokenPolicy(Says(tokenizer, ["crane", "lemon", "night", "piano"] * 2), tokenizer)
    env = "pkg://envweave.examples.word_game:WordGame"
    (group,) = ew.rollout(env, policy, [4], group_size=2, max_turns=4, at_once=1)
    for episode in group:
        (sample,) = episode.samples()
        drawn = [token for turn in episode.turns for token in turn.reply.token_ids]
        assert [t for t, own in zip(sample.tokens, sample.mask, strict=True) if own] == drawn
        assert len(sample.tokens) == len(sample.mask) == len(sample.logprobs) == len(sample.turns)
        assert episode.versions == (7,)
        assert episode.usage.completion_tokens == len(drawn)


def test_the_longest_reply_is_the_smaller_limit():
    tokenizer = tiny_tokenizer()
    sampler = Says(tokenizer, ["a", "b"])
    policy = TokenPolicy(sampler, tokenizer, max_tokens=50)
    asyncio.run(policy.reply(Conversation(messages=QUESTIONS[0], new=QUESTIONS[0])))
    asyncio.run(policy.reply(Conversation(messages=QUESTIONS[0], new=QUESTIONS[0], max_tokens=9)))
    assert sampler.limits == [50, 9]


def test_one_tokenizer_may_be_used_by_many_policies_and_the_caller_at_once():
    tokenizer = tiny_tokenizer()
    policies = [TokenPolicy(Says(tokenizer, ["hello"] * 50), tokenizer) for _ in range(4)]
    question = [{"role": "user", "content": "some text " * 200}]

    async def run():
        asked = (policy.reply(Conversation(messages=question, new=question)) for policy in policies for _ in range(50))
        working = asyncio.gather(*asked)
        while not working.done():  # sets truncation, which fails while another thread encodes
            tokenizer("some text " * 200, truncation=True, max_length=5)
            await asyncio.sleep(0)
        return await working

    assert len(asyncio.run(run())) == 200


def test_what_a_template_refuses_is_said():
    refusing = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + CHATML
    policy = TokenPolicy(Says(tokenizer := tiny_tokenizer(refusing), ["hello"]), tokenizer)
    told = [{"role": "system", "content": "be brief"}, *QUESTIONS[0]]
    with pytest.raises(UsageError, match="refuses the conversation: no system role"):
        asyncio.run(policy.reply(Conversation(messages=told, new=told)))


def test_bad_arguments_are_refused():
    tokenizer = tiny_tokenizer()
    with pytest.raises(UsageError, match="either a tokenizer or a renderer"):
        TokenPolicy(Says(tokenizer, []))
    with pytest.raises(UsageError, match="max_tokens is 0"):
        TokenPolicy(Says(tokenizer, []), tokenizer, max_tokens=0)
    with pytest.raises(UsageError, match="tool_parser"):
        TokenPolicy(Says(tokenizer, []), tokenizer, tool_parser="nothing")
    tokenizer.chat_template = None
    with pytest.raises(UsageError, match="no chat template"):
        TokenPolicy(Says(tokenizer, []), tokenizer)
    with pytest.raises(UsageError, match="shows no text"):
        TokenPolicy(Says(silent := tiny_tokenizer("{{ '<bos>' }}"), []), silent)
