from collections.abc import Iterator
from itertools import islice, product
from math import ceil

import pytest

from pixi.settings.rules import Requester, Rules, is_admin, is_blocked, may_talk

USER, ROLE, GUILD, CATEGORY, CHANNEL, THREAD, OTHER = 1, 2, 3, 4, 5, 6, 99

IN_GUILD = Requester(USER, frozenset({GUILD, ROLE}), GUILD, (THREAD, CHANNEL, CATEGORY))
IN_DM = Requester(USER)
ASKERS = (
    IN_GUILD,
    Requester(USER, IN_GUILD.roles, GUILD, IN_GUILD.channels, manages=True),
    Requester(USER, IN_GUILD.roles, GUILD, IN_GUILD.channels, is_bot=True),
    Requester(USER, frozenset(), GUILD, (CHANNEL,)),
    IN_DM,
    Requester(USER, is_bot=True),
)

KINDS = ("users", "roles", "channels", "guilds")


def every_state(mine: int) -> tuple[tuple[int, ...], ...]:
    """A list that is empty, that names theirs, that names another."""
    return (), (mine, OTHER), (OTHER,)


def every_rules() -> Iterator[Rules]:
    lists = [every_state(mine) for mine in (USER, ROLE, CHANNEL, GUILD)]
    for blocked in product(*lists):
        for allowed in product(*lists):
            for dms, bots, admin in product((False, True), repeat=3):
                yield Rules(
                    blocked_users=blocked[0],
                    blocked_roles=blocked[1],
                    blocked_channels=blocked[2],
                    blocked_guilds=blocked[3],
                    allowed_users=allowed[0],
                    allowed_roles=allowed[1],
                    allowed_channels=allowed[2],
                    allowed_guilds=allowed[3],
                    dms=dms,
                    bots=bots,
                    admins=(USER,) if admin else (),
                )


def labels(asker: Requester) -> set[tuple[str, int]]:
    """Everything by which a list can mean them."""
    guild = set() if asker.guild is None else {("guilds", asker.guild)}
    roles = {("roles", role) for role in asker.roles}
    return {("users", asker.user), *guild, *roles, *(("channels", each) for each in asker.channels)}


def listed(rules: Rules, prefix: str, kinds: tuple[str, ...]) -> set[tuple[str, int]]:
    return {(kind, each) for kind in kinds for each in getattr(rules, f"{prefix}_{kind}")}


def expected(rules: Rules, asker: Requester) -> bool:
    """The promise again, as sets: deny first, then admins, then each wish that the operator has."""
    theirs = labels(asker)
    if theirs & listed(rules, "blocked", KINDS):
        return False
    wishes = [listed(rules, "allowed", ("users", "roles"))]
    if asker.guild is not None:
        wishes += [listed(rules, "allowed", ("channels",)), listed(rules, "allowed", ("guilds",))]
    hindrances = [
        asker.is_bot and not rules.bots,
        asker.guild is None and not rules.dms,
        *(bool(wish) and not wish & theirs for wish in wishes),
    ]
    return not any(hindrances) or asker.user in rules.admins


@pytest.mark.parametrize("step", [31, pytest.param(1, marks=pytest.mark.nightly)])
def test_every_combination_of_the_lists_is_decided_as_promised(step: int) -> None:
    count = 0
    for rules in islice(every_rules(), None, None, step):
        for asker in ASKERS:
            count += 1
            if may_talk(rules, asker) is not expected(rules, asker):
                pytest.fail(f"{rules} {asker}: {may_talk(rules, asker)}")

    assert count == ceil(3**8 * 2**3 / step) * len(ASKERS)


@pytest.mark.parametrize("place", [THREAD, CHANNEL, CATEGORY])
def test_a_list_of_channels_means_threads_and_categories_too(place: int) -> None:
    assert may_talk(Rules(allowed_channels=(place,)), IN_GUILD)
    assert not may_talk(Rules(blocked_channels=(place,)), IN_GUILD)


def test_empty_allow_lists_do_not_undo_block_lists_and_dms() -> None:
    assert not may_talk(Rules(blocked_users=(USER,)), IN_GUILD)
    assert not may_talk(Rules(dms=False), IN_DM)
    assert may_talk(Rules(), IN_DM)


def test_a_blocked_admin_is_denied() -> None:
    rules = Rules(admins=(USER,), blocked_guilds=(GUILD,))

    assert not may_talk(rules, IN_GUILD)
    assert not is_admin(rules, IN_GUILD)
    assert is_admin(rules, IN_DM)


def test_who_manages_the_guild_governs_there_if_they_may_talk() -> None:
    manager = Requester(USER, IN_GUILD.roles, GUILD, IN_GUILD.channels, manages=True)

    assert is_admin(Rules(), manager)
    assert not is_admin(Rules(), IN_GUILD)
    assert not is_admin(Rules(allowed_users=(OTHER,)), manager)
    assert not is_admin(Rules(), Requester(USER, manages=True))


def test_only_who_is_on_a_block_list_is_blocked() -> None:
    assert is_blocked(Rules(blocked_roles=(ROLE,)), IN_GUILD)
    assert not is_blocked(Rules(allowed_users=(OTHER,)), IN_GUILD)
    assert not is_blocked(Rules(bots=False), Requester(USER, is_bot=True))
