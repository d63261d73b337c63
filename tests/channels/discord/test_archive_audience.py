"""Whether everybody who sees one channel may read another, held against every set of roles there can be."""

import random
from collections.abc import Iterator
from itertools import chain, combinations

from pixi.channels.discord.archive.audience import ADMINISTRATOR, READ, VIEW, Overwrites, Roles, all_may


def subsets(roles: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(roles, count) for count in range(len(roles) + 1))


def permissions(channel: Overwrites, roles: Roles, mine: tuple[int, ...]) -> int:
    """What Discord gives somebody with these roles, by its documents."""
    bits = roles.everyone
    for role in mine:
        bits |= roles.others[role]
    if bits & ADMINISTRATOR:
        return ~0
    bits = bits & ~channel.everyone[1] | channel.everyone[0]
    allowed = denied = 0
    for role in mine:
        allow, deny = channel.roles.get(role, (0, 0))
        allowed, denied = allowed | allow, denied | deny
    return bits & ~denied | allowed


def anything(dice: random.Random) -> tuple[Overwrites, Overwrites, Roles]:
    """Two channels, and roles, as they may be."""
    roles = list(range(1, 5))
    bits = (0, 0, VIEW, READ, READ & ~VIEW)

    def overwrites() -> Overwrites:
        chosen = {role: (dice.choice(bits), dice.choice(bits)) for role in roles if dice.random() < 0.5}
        return Overwrites((dice.choice(bits), dice.choice(bits)), chosen)

    others = {role: dice.choice(bits) | (ADMINISTRATOR if dice.random() < 0.1 else 0) for role in roles}
    return overwrites(), overwrites(), Roles(dice.choice(bits), others)


def test_what_all_may_read_is_found_out_as_if_every_set_of_roles_was_tried() -> None:
    dice, seen = random.Random(6), {True: 0, False: 0}
    for _ in range(6_000):
        here, there, roles = anything(dice)
        everybody = all(
            permissions(there, roles, mine) & READ == READ
            for mine in subsets(list(roles.others))
            if permissions(here, roles, mine) & VIEW
        )
        seen[everybody] += 1
        assert all_may(here, there, roles, READ) is everybody, (here, there, roles)
    assert min(seen.values()) > 500


def test_a_role_that_only_an_overwrite_knows_counts_too() -> None:
    roles = Roles(READ, {})
    assert not all_may(Overwrites(), Overwrites(roles={7: (0, VIEW)}), roles, READ)
    assert all_may(Overwrites(roles={7: (0, VIEW)}), Overwrites(roles={7: (0, VIEW)}), roles, READ)
