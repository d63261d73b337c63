"""The errors of the project: one base, few leaves, named by whom they speak to."""

from collections.abc import Callable

from pixi.core.masking import redact_addresses

Reporter = Callable[[str], None]
"""Takes a line for a person: what went wrong beside the work, or what takes long, and "" when it is done."""


def silent(_: str) -> None:
    """Report to nobody."""


class PixiError(Exception):
    """Base of every error that Pixi raises on purpose. Its text is fit for a person to read.

    Passwords, keys and signatures in addresses are not part of the text, whoever wrote it.
    """

    def __str__(self) -> str:
        return redact_addresses(super().__str__())


class ConfigError(PixiError):
    """The operator must mend something: a setting, a file, a flag. Exit code 2.

    Attributes:
        faults: what is to be mended, all of it; each names the thing, the place and the mend in one line, or
            in two. They are the error's text, one below the other.
    """

    def __init__(self, *faults: str) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class ModelError(PixiError):
    """The model or its server failed.

    Attributes:
        permanent: asking again cannot help (a wrong key, an unknown model).
        retry_after: seconds that the server asked us to wait, where it said so.
    """

    def __init__(self, text: str, *, permanent: bool = False, retry_after: float | None = None) -> None:
        super().__init__(text)
        self.permanent = permanent
        self.retry_after = retry_after


class ToolError(PixiError):
    """A tool could not do it. The text is for the model, which may try another way."""


class OutcomeUnknown(ToolError):
    """A tool that changes something was stopped, or had no answer: nobody knows whether it was done."""


class ChannelError(PixiError):
    """A channel refused an act for good (no permission, the message is gone). Never asked again."""


class ChannelLost(ChannelError):
    """A channel could not be reached, so that nobody knows whether the act happened."""


class ChannelForgot(ChannelLost):
    """A channel keeps no record of what was posted in it: nobody will ever know whether the act happened."""


class ChannelElsewhere(ChannelError):
    """Another process speaks in this channel, and sees to what is to be done there."""


class StoreError(PixiError):
    """The database could not be read or written. The text names the file and the mend."""


class StoreOutdated(StoreError):
    """A value held in memory is outdated: another process changed it. Read it again."""


class OverQuota(StoreError):
    """A person had as much changed for them as they may within a stretch of time.

    Attributes:
        wait: seconds until they may have something changed again.
    """

    def __init__(self, wait: float) -> None:
        super().__init__(f"No more may be changed for this person within {wait:.0f} seconds.")
        self.wait = wait


class LeaseHeld(StoreError):
    """Another living process has a turn under way in the conversation."""
