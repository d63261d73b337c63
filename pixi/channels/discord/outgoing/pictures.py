"""A picture as Discord shows it: by the link of its service, or as a file that goes on moving."""

from pixi.channels.discord.outgoing.cards import file_of, public_address
from pixi.channels.discord.outgoing.rest import MessageContent
from pixi.core.errors import ChannelError
from pixi.core.picture import Picture

_LONGEST_ALT = 1_024


def picture_content(picture: Picture, *, files: bool) -> MessageContent:
    """The message that shows a picture.

    Args:
        picture: what is to be shown.
        files: whether the place takes files.

    Raises:
        ChannelError: it cannot be shown there.
    """
    if link := public_address(picture.link, "https"):
        return MessageContent(link)
    if not files:
        raise ChannelError("A picture cannot be shown here: the bot may attach no files.")
    file = file_of(picture.file)
    if file is None:
        raise ChannelError("A picture cannot be shown here: it is too large, or none that Discord shows.")
    return MessageContent(file=file, alt=picture.words.strip()[:_LONGEST_ALT])
