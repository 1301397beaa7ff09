"""An executor: the calls of a vector run on a pool of `concurrent.futures`."""

from concurrent.futures import ThreadPoolExecutor

import envweave as ew
from envweave.plan import EnvPlan
from envweave.vector.executor import LocalExecutor, close_backend
from envweave.vector.slot import Slot


class PoolExecutor(LocalExecutor):
    def __init__(self, workers):
        self._pool = ThreadPoolExecutor(workers)

    def submit(self, slot, kind, data, done):
        def report(future):
            error = future.exception()
            done(None if error else future.result(), error)

        self._pool.submit(self.perform, slot, slot.backend, kind, data).add_done_callback(report)

    def close(self, slots, timeout):
        self._pool.shutdown()
        for slot in slots:
            close_backend(slot.backend)
        return set()


def make_vector(id, num_envs, *, autoreset=False):
    """A vector whose environments run on a pool."""
    plan, executor = EnvPlan(ew.spec(id), {}, autoreset).check(), PoolExecutor(num_envs)
    slots = [Slot(f"{plan.spec.id}#{number}", plan, executor, autoreset=autoreset) for number in range(num_envs)]
    executor.open(slots)
    return ew.VectorEnv(slots)
