"""Pieces of the language, and of what comes near it: what random replies are put together from."""

# fmt: off
FRAGMENTS = (
    # commands and their parts
    "[SEND: hi]", "[SEND: ", "[send:hi]", "[SEND hello]", "[SEND=", "[SEND - ", "[SEND]", "[ SEND ]",
    "[/SEND]", "[NOTE: ", "[NOTE]", "[/NOTE]", "[REACT: 🥞]", "[REACT 👍]", "[REACT:", "[SEND", "[SE",
    "[say: ", "[EMOJI]", "[SNED: hi]", "[REAKT: ", "[Spend: 5]", "[Sender: ", "[END]", "[send_message: ",
    "SEND", ": ", "hi", "【SEND：你好】", "【NOTE：", "］", "［SEND: ", "】", "【", "：", "[SEND：",
    "\n【SEND：好】",
    # the number of an earlier message
    "[REACT #3: 🥞]", "[REPLY #12: ", "[reply #3:hi]", "[REACT#3", " #3", "#", " # ", "#12", "＃３",
    "#1234567890", "[SEND #3]", "[REPLY #3]", "[REPLY #3 ", "[REPLY #3-", "[REACT #3🥞]", "[**REPLY #3:** ",
    "[SNED #3: a]", "【REACT ＃3：", "\n[REPLY #4: b", "[SEND #party", "[SEND: #3: ",
    # line starts and line ends
    "\n", "\r\n", "\r", "\n\n", "\n[SEND: two]", "\n[REACT: ", "\n  [NOTE: x", "\n- [SEND: a]",
    "\n> [SEND: b", "\n**[SEND: c]**", "\n[SEND]", "\n[1] ", "\n- ", "\n1. ",
    # what brackets can be besides
    "[", "]", "[[", "]]", "[1]", "[x]", "[docs](http://a.b)", "[Scene: cafe]", "[12:30]", "\\[", "\\]",
    "\\", ":[", ":]", "=[", "=]", ":'[", ":] ", " :]]", "=]\n", ":", "=", "`", "``", "```", "````", "`]`",
    "`[SEND: x]`", "```py\n", "\n```\n", "```]", "` ", "```\n]\n```", "**", "*", "__", "_", "~~", "> ",
    "- ", "[**SEND**: ", "[**SEND:** ", "[`SEND`: x]", "**[SEND: hi]**",
    # what is not the reply
    "<think>", "</think>", "<thinking>", "</thinking>", "<think>[SEND: no]</think>", "<thi", "<", ">", "<3",
    "</", "</s>", "<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|im_start|>", "<s>", "<|", "|>", "<|x|>",
    "User:", "\nUser: x\n", "\nHuman:", "\nMo: y", "Mo:", "Mo", "\nUse", "User", '<tool-call tool="a">',
    "</tool-call>", '<tool-call tool="a">{"q": "x"}</tool-call>', "<tool-call tool=a>{}",
    "<tool-call tool='b'>{\"q\": \"</tool-call>\"}</tool-call>", "<tool-call ", "<tool-c", '"', "'", '\\"',
    "{", "}",
    # other signs
    " ", "  ", "\t", "\u00a0", "\u200b", "\ufeff", "\u200d", "\u2060", "\ufe0f", "\u2028", "\x85", "\x00",
    "🥞", "👩\u200d👩\u200d👦", "\ud83e", "\udd5e", "سلام", "می\u200cخواهم", "你好", "é", "cafe\u0301", "İ",
    "ß", "a", "word ", "12",
)
# fmt: on

PEOPLE = ("Mo",)
"""Who is answered where random replies are read."""

CANARY = "\n[SEND: canary]"
"""A whole message on a line of its own, which nothing broken before it may swallow."""


def may_hide_a_canary(reply: str) -> bool:
    """Whether a reply may rightly end or hide what follows it: tags, tokens, the model playing the user."""
    letters = "".join(filter(str.isalpha, reply)).casefold()
    return "<" in reply or any(name.casefold() in letters for name in ("User", "Human", *PEOPLE))
