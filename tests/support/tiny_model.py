"""A tokenizer and a model that are made in a second, without files from elsewhere."""

import re
from typing import Any

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
MARKS = re.compile(
    r"<[|｜][^<>{}'\"\s]*[|｜]>|</?(?:think|tool_call|start_of_turn|end_of_turn|end_of_utterance|s|bos|eos)>|<\|?turn\|?>"
)
"""What stands for one token in chat templates."""


def tiny_tokenizer(template: str = CHATML) -> Any:
    """A fast tokenizer of bytes and a few words, in which the marks of the template are special tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    marks = list(dict.fromkeys(["<bos>", "<eos>", *MARKS.findall(template)]))
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=marks,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([" hello world, some text about the numbers of a game"] * 3, trainer)
    eos = "<|im_end|>" if "<|im_end|>" in marks else "<eos>"
    made = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos, bos_token="<bos>", pad_token="<bos>")
    made.add_special_tokens({"additional_special_tokens": marks[2:]})
    made.chat_template = template
    return made


def tiny_model(tokenizer: Any, *, seed: int = 0, context: int = 2048) -> Any:
    """A Qwen3 of two layers with random weights."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        head_dim=16,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config)
