"""A warehouse with three tools and 200 orders: a tool environment in one file."""

from random import Random
from typing import Any

import envweave as ew


def order(number: int) -> dict[str, Any]:
    """The stock on four shelves, and what a customer wants."""
    draw, items = Random(number), ("bolt", "cable", "fan", "gear", "lamp", "motor")
    stock = {shelf: {item: draw.randint(2, 5) for item in draw.sample(items, 3)} for shelf in "ABCD"}
    wanted = {item: draw.randint(1, 2) for item in draw.sample(sorted(stock["B"]), 2)}
    prompt = f"Collect {wanted}, then ship. The shelves are A, B, C and D."
    return {"id": f"order-{number}", "prompt": prompt, "wanted": wanted, "stock": stock}


class Warehouse(ew.ToolEnvironment):
    """You work in a warehouse. Use the tools to fill the order."""

    tasks = ew.Tasks([order(number) for number in range(200)])
    penalty = -0.1  # for a call that names no tool or has wrong arguments

    def reset(self, *, task: ew.Task) -> ew.ToolObservation:
        self._wanted, self._cart = task["wanted"], dict.fromkeys(task["wanted"], 0)
        self._stock = {shelf: dict(items) for shelf, items in task["stock"].items()}
        return ew.ToolObservation(task.prompt)

    @ew.tool
    def look(self, shelf: str) -> dict[str, int]:
        """The items on a shelf, and how many there are."""
        return self._stock[shelf]

    @ew.tool
    def take(self, shelf: str, item: str, count: int) -> str:
        """Put items from a shelf into the cart."""
        if not 0 < count <= self._stock[shelf][item]:
            raise ValueError(f"shelf {shelf} has {self._stock[shelf][item]} of them")
        self._stock[shelf][item] -= count
        self._cart[item] = self._cart.get(item, 0) + count
        return f"the cart has {self._cart}"

    @ew.tool
    def ship(self) -> ew.ToolObservation:
        """Ship the cart. This ends the episode."""
        return ew.ToolObservation("shipped", reward=float(self._cart == self._wanted), done=True)
