"""A whole bot over real sockets: a hundred messages a second, for ten minutes."""

from benchmarks.discord import whole_bot
from benchmarks.report import Figure, progress

CHANNELS = 50
RATE = 100


def run(quick: bool) -> list[Figure]:
    """Measure."""
    seconds = 3 if quick else 600
    progress(f"flow, {RATE} messages a second for {seconds} s")
    with whole_bot(CHANNELS) as (server, bot):
        told = server.ask({"do": "flow", "channels": CHANNELS, "rate": RATE, "seconds": seconds})
        seen = bot.ask({})
    lag = seen["lag_p99"] * 1e3
    return [
        Figure(
            name=f"Discord: {RATE} messages a second in {CHANNELS} channels, for {seconds} s",
            goal="none lost, none twice, order kept",
            ours=f"{told['asked']:,} asked; {told['lost']} lost, {told['twice']} answered twice, "
            f"{told['disorder']} out of order",
            met=told["asked"] > 0 and not (told["lost"] or told["twice"] or told["disorder"]),
            note=f"the bot took {seen['cpu_share']:.0%} of its core, its loop was {lag:.1f} ms late at p99",
        )
    ]
