"""Whether everybody who sees one channel may read another, held against every set of roles there can be."""

import random
from collections.abc import Iterator, Mapping
from itertools import chain, combinations

from pixi.channels.discord.archive.visibility import ADMINISTRATOR, HISTORY, VIEW, Overwrites, RoleAccess

EVERYONE = 0
READ = VIEW | HISTORY
Roles = Mapping[int, int]


def subsets(roles: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(roles, count) for count in range(len(roles) + 1))


def permissions(channel: Overwrites, roles: Roles, mine: tuple[int, ...]) -> int:
    """What Discord gives somebody with these roles, by its documents."""
    bits = roles[EVERYONE]
    for role in mine:
        bits |= roles[role]
    if bits & ADMINISTRATOR:
        return ~0
    allow, deny = channel[EVERYONE]
    bits = bits & ~deny | allow
    allowed = denied = 0
    for role in mine:
        allow, deny = channel.get(role, (0, 0))
        allowed, denied = allowed | allow, denied | deny
    return bits & ~denied | allowed


def anything(dice: random.Random) -> tuple[Overwrites, Overwrites, Roles]:
    """Two channels, and roles, as they may be."""
    others = list(range(1, 5))
    bits = (0, 0, VIEW, READ, READ & ~VIEW)

    def overwrites() -> Overwrites:
        chosen = [EVERYONE, *(role for role in others if dice.random() < 0.5)]
        return {role: (dice.choice(bits), dice.choice(bits)) for role in chosen}

    roles = {role: dice.choice(bits) | (ADMINISTRATOR if dice.random() < 0.1 else 0) for role in others}
    return overwrites(), overwrites(), {EVERYONE: dice.choice(bits), **roles}


def test_what_all_may_read_is_found_out_as_if_every_set_of_roles_was_tried() -> None:
    dice, seen = random.Random(6), {True: 0, False: 0}
    for _ in range(6_000):
        here, there, roles = anything(dice)
        everybody = all(
            permissions(there, roles, mine) & READ == READ
            for mine in subsets([role for role in roles if role != EVERYONE])
            if permissions(here, roles, mine) & VIEW
        )
        seen[everybody] += 1
        seeing = RoleAccess.of(here, roles, EVERYONE, VIEW)
        reading = [RoleAccess.of(there, roles, EVERYONE, bit) for bit in (VIEW, HISTORY)]
        assert all(map(seeing.is_within, reading)) is everybody, (here, there, roles)
    assert min(seen.values()) > 500
