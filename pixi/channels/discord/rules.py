"""What an operator may decide about the bot: plain values, checked where settings are read."""

from dataclasses import dataclass
from typing import Literal

Faces = Literal["off", "profile", "webhook"]
Ping = Literal["users", "roles", "everyone"]


@dataclass(frozen=True, slots=True)
class Rules:
    """How the bot behaves. Lists hold Discord's ids; an empty `allowed_…` list allows everybody.

    Attributes:
        allowed_users: the people who may talk to the bot; empty: everybody.
        blocked_users: the people whom the bot ignores.
        allowed_roles: the roles whose members may talk to the bot; empty: all.
        blocked_roles: the roles whose members the bot ignores.
        allowed_channels: the channels in which the bot answers; empty: all.
        blocked_channels: the channels in which the bot does not answer.
        allowed_guilds: the servers in which the bot answers; empty: all.
        blocked_guilds: the servers in which the bot does not answer.
        admins: the people who govern the bot everywhere, and who pass every list of what is allowed.
        dms: whether direct messages are answered.
        bots: whether other bots are answered.
        bot_turns: how many turns personas and bots may take in a channel until a person speaks again.
        home_channels: the channels where every message is meant for the persona.
        faces: how a persona shows: as the bot (`off`), as the bot with the persona's name and picture in each
            server (`profile`), or under its own name and picture, several in one channel (`webhook`).
        pings: whom a persona may ping besides the person it answers.
        link_hosts: whether the host is shown beside a link to which a persona gives another name.
        overhear: how many messages before the one that calls it a persona is told of.
        catch_up_minutes: how old a message may be that came while the bot was away and is still answered.
        catch_up_messages: how many such messages are read in each channel.
        patience_seconds: how long a message is tried again while Discord cannot be reached.
        pictures: how many pictures of a message are shown to a model that sees.
        picture_megabytes: how large the file of a picture may be.
        picture_pixels: the longer side of a picture as it is shown; larger ones are scaled down.
        text_files: how many text files of a message are read.
        text_characters: how much is read of a message, and of each text file.
        slash: whether there are slash commands.
        read_history: whether personas may look up what was written in the server, as far as everybody may
            read it who reads the answer.
        stickers: whether personas may send the stickers of the server.
    """

    allowed_users: tuple[int, ...] = ()
    blocked_users: tuple[int, ...] = ()
    allowed_roles: tuple[int, ...] = ()
    blocked_roles: tuple[int, ...] = ()
    allowed_channels: tuple[int, ...] = ()
    blocked_channels: tuple[int, ...] = ()
    allowed_guilds: tuple[int, ...] = ()
    blocked_guilds: tuple[int, ...] = ()
    admins: tuple[int, ...] = ()
    dms: bool = True
    bots: bool = False
    bot_turns: int = 4
    home_channels: tuple[int, ...] = ()
    faces: Faces = "off"
    pings: tuple[Ping, ...] = ()
    link_hosts: bool = True
    overhear: int = 20
    catch_up_minutes: float = 30.0
    catch_up_messages: int = 50
    patience_seconds: float = 30.0
    pictures: int = 4
    picture_megabytes: float = 8.0
    picture_pixels: int = 1_024
    text_files: int = 3
    text_characters: int = 20_000
    slash: bool = True
    read_history: bool = False
    stickers: bool = False
