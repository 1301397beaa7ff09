"""Rollouts with Tinker: `python tinker_client.py URL MODEL ENV` prints how far trainer and sampler are apart.

A process of its own, because the SDK leaves sockets open.
"""

import json
import os
import sys

import tinker
from transformers import AutoTokenizer

import envweave as ew
from envweave.adapters.tinker import TinkerSampler, to_datum
from envweave.rollouts import TokenPolicy


def main(url: str, model: str, env: str) -> None:
    os.environ["TINKER_TELEMETRY"] = "0"
    service = tinker.ServiceClient(base_url=url, api_key="tml-test")
    trainer = service.create_lora_training_client(base_model=model, rank=8, seed=0).result()
    sampler = TinkerSampler(trainer.save_weights_and_get_sampling_client().result())
    policy = TokenPolicy(sampler, AutoTokenizer.from_pretrained(model), max_tokens=20)
    groups = list(ew.rollout(env, policy, 3, group_size=6, max_turns=4, at_once=6))
    episodes = [episode for group in groups for episode in group]
    samples = [paid(sample) for episode in episodes for sample in episode.samples()]
    data = [to_datum(sample) for sample in samples]
    found = {
        "failures": [failure.message for episode in episodes for failure in episode.failures],
        "sequences": [len(episode.samples()) for episode in episodes],
        "drawn": sum(sum(sample.mask) for sample in samples),
        "difference": difference(trainer, data, samples),
        "difference_of_unshifted_targets": difference(trainer, list(map(unshifted, data, samples)), samples),
    }
    trainer.forward_backward(data, "importance_sampling").result()
    trainer.optim_step(tinker.AdamParams(learning_rate=1e-2)).result()
    sampler.update(trainer.save_weights_and_get_sampling_client().result(), 1)
    (group,) = ew.rollout(env, policy, [4], group_size=2, max_turns=2)
    after = [paid(sample) for episode in group for sample in episode.samples()]
    found |= {
        "versions_after_training": sorted({version for episode in group for version in episode.versions}),
        "difference_after_training": difference(trainer, [to_datum(sample) for sample in after], after),
        "difference_to_weights_before": difference(trainer, data, samples),
    }
    print(json.dumps(found))


def paid(sample):
    """With the advantages of a reward that no episode of a random model gets."""
    sample.advantages = [0.5 * own for own in sample.mask]
    return sample


def unshifted(datum, sample):
    """The mistake that training on a sequence invites: each token as its own target."""
    targets = tinker.TensorData(data=sample.tokens[:-1], dtype="int64")
    return tinker.Datum(model_input=datum.model_input, loss_fn_inputs=datum.loss_fn_inputs | {"target_tokens": targets})


def difference(trainer, data, samples):
    """The largest between the log-probabilities of drawn tokens of the trainer and the sampler."""
    outputs = trainer.forward(data, "importance_sampling").result().loss_fn_outputs
    return max(
        abs(there - here)
        for output, sample in zip(outputs, samples, strict=True)
        for there, here, own in zip(output["logprobs"].tolist(), sample.logprobs[1:], sample.mask[1:], strict=True)
        if own
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
