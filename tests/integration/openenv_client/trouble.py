"""An environment of ours that raises when it is told to."""

from envweave.envs.echo import EchoAction, EchoEnvironment


class TroubleEnvironment(EchoEnvironment):
    def reset(self, *, fail: bool = False):
        if fail:
            raise RuntimeError("no reset today")
        return super().reset()

    def step(self, action: EchoAction):
        if action.message == "boom":
            raise RuntimeError("the environment fell over")
        return super().step(action)
