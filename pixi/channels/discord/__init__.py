"""Discord: a bot that hears messages, and channels in which a persona speaks.

- `bot` connects, stays and leaves. `backend` is all that it asks of those who built it.
- `gateway/`: discord.py itself, how it is connected, and every patch of it.
- `incoming/`: `dispatch` takes events and queues them by channel; `message` translates each message once, at
  this border; `handler` decides whom it is for, and gives it to the backend with what was said before.
- `outgoing/`: `channel` is where a persona acts; `delivery` posts until it is known what became of a message;
  `identities` are webhooks and profiles; `approvals` asks people before a tool does something.
- `slash/`: the slash commands. `archive/`: what was written before, for those who may read it.
- Shared by them: `permissions` (who somebody is, and may do what), `places` (channels), `requests` (to
  Discord, and what a refusal means), `formatting` (text that is safe to show).
"""
