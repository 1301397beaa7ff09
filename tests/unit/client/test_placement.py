"""Who sits where."""

import pytest

from envweave.client.placement import shares


@pytest.mark.parametrize("count", range(9))
@pytest.mark.parametrize("parts", range(1, 7))
def test_shares_are_all_of_it_in_order_and_of_the_same_size_give_or_take_one(count, parts):
    numbers = list(range(count))
    found = shares(numbers, parts)
    assert [number for part in found for number in part] == numbers
    assert len(found) == min(count, parts)
    sizes = {len(part) for part in found}
    assert not sizes or max(sizes) - min(sizes) <= 1
    assert 0 not in sizes


def test_no_parts_are_no_shares():
    assert shares([1, 2], 0) == []
