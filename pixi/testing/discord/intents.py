"""What a session asked to be told of."""

import enum


class GatewayIntents(enum.IntFlag):
    """The bits of `intents`, under their documented names."""

    GUILDS = 1 << 0
    GUILD_MEMBERS = 1 << 1
    GUILD_MODERATION = 1 << 2
    GUILD_EXPRESSIONS = 1 << 3
    GUILD_INTEGRATIONS = 1 << 4
    GUILD_WEBHOOKS = 1 << 5
    GUILD_INVITES = 1 << 6
    GUILD_VOICE_STATES = 1 << 7
    GUILD_PRESENCES = 1 << 8
    GUILD_MESSAGES = 1 << 9
    GUILD_MESSAGE_REACTIONS = 1 << 10
    GUILD_MESSAGE_TYPING = 1 << 11
    DIRECT_MESSAGES = 1 << 12
    DIRECT_MESSAGE_REACTIONS = 1 << 13
    DIRECT_MESSAGE_TYPING = 1 << 14
    MESSAGE_CONTENT = 1 << 15
    GUILD_SCHEDULED_EVENTS = 1 << 16
    AUTO_MODERATION_CONFIGURATION = 1 << 20
    AUTO_MODERATION_EXECUTION = 1 << 21
    GUILD_MESSAGE_POLLS = 1 << 24
    DIRECT_MESSAGE_POLLS = 1 << 25


NO_INTENT = GatewayIntents(0)
KNOWN = GatewayIntents(sum(GatewayIntents))
PRIVILEGED = GatewayIntents.GUILD_MEMBERS | GatewayIntents.GUILD_PRESENCES | GatewayIntents.MESSAGE_CONTENT

# In the flags of an application: what its owner switched on.
LIMITED_FLAGS = {
    GatewayIntents.GUILD_PRESENCES: 1 << 13,
    GatewayIntents.GUILD_MEMBERS: 1 << 15,
    GatewayIntents.MESSAGE_CONTENT: 1 << 19,
}
