"""Keeps the control words of models' chat templates out of a request, and out of any text."""

import json
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, assert_never

from msgspec.structs import replace

from pixi.core.language import BREAK, BUILT_IN
from pixi.core.llm import AssistantLine, Line, Request, SystemLine, ToolCall, ToolLine, ToolSchema, UserLine

# A tokenizer that normalizes (NFKC) reads the wide form for the narrow one.
_WIDE: Final = {"<": "<＜", ">": ">＞", "[": "[［", "]": "]］", "|": "|｜", "｜": "|｜", "/": "/／"}
_FIRST: Final = "<>[]◁"
_NAME: Final = r"[\w.:/▁-]{1,64}?"
# Candidates for control words in a template's source: `<tool_call>`, `[TOOL_CALLS]`, `<|im_end|>`, `<<SYS>>`.
_IN_TEMPLATE: Final = re.compile(r"<<?[^\s<>'\"{}()%,]{1,60}>>?|\[/?(?:[A-Z][A-Z_]{2,40}|\|\w{1,40}\|)\]")
_OURS: Final = re.compile(
    rf"\s|…|\A\[/?\w+:|\A\[/?(?:{'|'.join(map(re.escape, BUILT_IN))})\]", re.IGNORECASE
)  # besides what the table's own form cannot hold
_Trie = dict[str, "_Trie"]
"""Words by their beginnings: what matches a character, and what may follow it. Nothing follows the last."""
Break = Callable[[str], str]
"""Breaks the control words in a text, as `pixi.core.control_words.broken` does."""
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)


TABLE: Final = tuple(
    word
    for words in (
        # ChatML (Qwen, Yi, Hermes, InternLM, …): https://github.com/openai/openai-python/blob/release-v0.28.0/chatml.md
        "<|… <|im_start|> <|im_end|> <|im_sep|> <|endoftext|>",
        # Qwen and Hermes: tools and thoughts: https://github.com/NousResearch/Hermes-Function-Calling
        "<tools> </tools> <tool_call> </tool_call> <tool_response> </tool_response> <think> </think>"
        " <scratch_pad> </scratch_pad> <function_call> </function_call>",
        # Qwen3-Coder, and Llama 3.1's own functions: https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct/blob/main/chat_template.jinja
        "<function=… </function> <parameter=… </parameter> <IMPORTANT>",
        # Llama 2: https://huggingface.co/blog/llama2#how-to-prompt-llama-2
        "<s> </s> <unk> [INST] [/INST] <<SYS>> <</SYS>>",
        # Code Llama: https://huggingface.co/codellama/CodeLlama-7b-Instruct-hf/blob/main/tokenizer_config.json
        "<PRE> <SUF> <MID> <EOT> <FILL_ME>",
        # Llama 3 and 4: https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
        "<|begin_of_text|> <|end_of_text|> <|start_header_id|> <|end_header_id|> <|eot_id|> <|eom_id|>"
        " <|python_tag|> <|finetune_right_pad_id|> <|header_start|> <|header_end|> <|eot|>",
        # Mistral: https://github.com/mistralai/mistral-common/blob/main/src/mistral_common/tokens/tokenizers/base.py
        "[AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS] [TOOL_CALLS] [/TOOL_CALLS]"
        " [TOOL_CONTENT] [/TOOL_CONTENT] [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [MODEL_SETTINGS] [/MODEL_SETTINGS]"
        " [ARGS] [CALL_ID] [THINK] [/THINK] [IMG] [IMG_BREAK] [IMG_END] [AUDIO] [BEGIN_AUDIO] [TRANSCRIBE]"
        " [PREFIX] [MIDDLE] [SUFFIX] <pad> <SPECIAL_…>",
        # Gemma: https://ai.google.dev/gemma/docs/core/prompt-structure
        "<start_of_turn> <end_of_turn> <bos> <eos> <start_of_image> <end_of_image> <image_soft_token>"
        " <start_of_audio> <end_of_audio> <audio_soft_token> <unused…> <mask> [multimodal] [@BOS@]"
        " <start_function_declaration> <end_function_declaration> <start_function_call> <end_function_call>"
        " <start_function_response> <end_function_response> <escape>",
        # Gemma 4: https://github.com/ggml-org/llama.cpp/blob/master/models/templates/gemma4.jinja
        "<…|> <|turn> <turn|> <|channel> <channel|> <|think|> <|tool> <tool|> <|tool_call> <tool_call|>"
        ' <|tool_response> <tool_response|> <|"|> <|image|>',
        # Cohere Command and Aya: https://docs.cohere.com/docs/prompting-command-r
        "<…_TOKEN> <BOS_TOKEN> <EOS_TOKEN> <PAD_TOKEN> <UNK_TOKEN> <MASK_TOKEN> <EOP_TOKEN> <CLS> <SEP>"
        " <|START_OF_TURN_TOKEN|> <|END_OF_TURN_TOKEN|> <|SYSTEM_TOKEN|> <|USER_TOKEN|> <|CHATBOT_TOKEN|>"
        " <|START_ACTION|> <|END_ACTION|> <|START_TOOL_RESULT|> <|END_TOOL_RESULT|> <|START_THINKING|>"
        " <|START_RESPONSE|> <results> </results>",
        # GLM: https://github.com/ggml-org/llama.cpp/blob/master/models/templates/GLM-4.6.jinja
        "[gMASK] [sMASK] [MASK] <sop> <eop> <|system|> <|user|> <|assistant|> <|observation|>"
        " <arg_key> </arg_key> <arg_value> </arg_value>",
        # DeepSeek: https://huggingface.co/deepseek-ai/DeepSeek-V3.1/blob/main/tokenizer_config.json
        "<｜… <｜User｜> <｜Assistant｜> <｜begin▁of▁sentence｜> <｜end▁of▁sentence｜> <｜tool▁calls▁begin｜>"
        " <｜tool▁call▁begin｜> <｜tool▁sep｜> <｜tool▁outputs▁begin｜> <｜tool▁output▁end｜>"
        " <｜DSML｜function_calls> </｜… </｜DSML｜function_calls> <function_result> </function_result>"
        " <functions> </functions>",
        # MiniMax: https://github.com/ggml-org/llama.cpp/blob/master/models/templates/unsloth-MiniMax-M2.jinja
        "]~!b[ ]~b] [e~[ ]!p~[ ]!d~[ ]<]… ]<]minimax[>[ <minimax:… </minimax:… <minimax:tool_call>"
        " </minimax:tool_call> <invoke… </invoke> <parameter… </parameter> <response> </response>"
        " <beginning_of_sentence> <end_of_sentence>",
        # Phi: https://huggingface.co/microsoft/Phi-4-mini-instruct
        "<|end|> <|tool|> <|/tool|> <|tool_call|> <|/tool_call|> <|tool_response|> <|placeholder1|>",
        # Granite: https://huggingface.co/ibm-granite/granite-3.3-8b-instruct/blob/main/tokenizer_config.json
        "<|start_of_role|> <|end_of_role|> <|start_of_cite|> <|end_of_cite|> <|start_of_plugin|> <documents>"
        " </documents> <response>",
        # Harmony (gpt-oss): https://github.com/openai/harmony
        "<|start|> <|channel|> <|message|> <|constrain|> <|call|> <|return|> <|startoftext|>",
        # Kimi: https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md
        "<|im_system|> <|im_user|> <|im_assistant|> <|im_middle|> <|tool_calls_section_begin|>"
        " <|tool_call_begin|> <|tool_call_argument_begin|> <|open|> <|close|> <|sep|> [BOS] [EOS] [EOT] [UNK]"
        " [PAD] [EOS…] [start_header_id] [end_header_id] ◁think▷ ◁/think▷",
        # Jamba: https://huggingface.co/ai21labs/AI21-Jamba-1.5-Mini/blob/main/tokenizer_config.json
        "<|bom|> <|eom|> <|system|> <tool_definitions> </tool_definitions> <tool_calls> </tool_calls>"
        " <active_modes> </active_modes> <citations> </citations>",
        # Nemotron: https://github.com/ggml-org/llama.cpp/blob/master/models/templates/NVIDIA-Nemotron-Nano-v2.jinja
        "<SPECIAL_10> <SPECIAL_11> <SPECIAL_12> <AVAILABLE_TOOLS> </AVAILABLE_TOOLS> <TOOLCALL> </TOOLCALL>"
        " <TOOL_RESPONSE> </TOOL_RESPONSE> <extra_id_…>",
        # Seed-OSS: https://github.com/ggml-org/llama.cpp/blob/master/models/templates/ByteDance-Seed-OSS.jinja
        "<seed:… </seed:… <seed:bos> <seed:eos> <seed:think> </seed:think> <seed:tool_call>"
        " </seed:tool_call> <seed:cot_budget_reflect>",
        # Hunyuan: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-chat.cpp
        "<｜hy_User｜> <｜hy_Assistant｜> <|startoftext|> <|extra_4|> <answer> </answer> <tool_responses>"
        " </tool_responses>",
        # EXAONE: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-chat.cpp
        "[|…|] [|system|] [|user|] [|assistant|] [|tool|] [|endofturn|]",
        # Ling and Bailing, Megrez, GigaChat, MiniCPM: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-chat.cpp
        "<role> </role> <|role_start|> <|role_end|> <|turn_end|> <|role_sep|> <|message_sep|> <用户> <AI>",
        # Baichuan and InternLM, before ChatML: https://huggingface.co/internlm/internlm-chat-7b/blob/main/tokenization_internlm.py
        "<reserved_… <TOKENS_UNUSED_…> <eoh> <eoa> <eosys>",
        # StarCoder, SmolLM and Granite Code: https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct/blob/main/special_tokens_map.json
        "<repo_name> <reponame> <file_sep> <filename> <gh_stars> <issue_start> <issue_comment> <issue_closed>"
        " <jupyter_start> <jupyter_text> <jupyter_code> <jupyter_output> <jupyter_script>"
        " <empty_output> <fim_prefix> <fim_middle> <fim_suffix> <fim_pad>",
        # Idefics and SmolVLM: https://huggingface.co/HuggingFaceTB/SmolVLM-Instruct/blob/main/tokenizer_config.json
        "<end_of_utterance> <fake_token_around_image> <global-img> <image>",
        # BERT's, kept by models that were made of it: https://huggingface.co/google-bert/bert-base-uncased/blob/main/tokenizer_config.json
        "[CLS] [SEP] [PAD] [unused…]",
    )
    for word in words.split()
)
"""Control words of models, those of a family together, as its makers or those who run it document them."""


def _searching(words: Iterable[str]) -> "re.Pattern[str]":
    """Return what finds the first character of each control word in a text.

    The rest of the word is only looked at, and each of its characters once: so the time taken grows with the
    text alone, whatever strangers write.
    """
    firsts: dict[str, _Trie] = {}
    for word in words:
        trie = firsts.setdefault(_matching(word[0]), {})
        for c in word[1:].removesuffix("…"):
            trie = trie.setdefault(_matching(c), {})
        trie[""] = {}
    return re.compile("|".join(f"{first}(?={_following(trie)})" for first, trie in firsts.items()))


@cache
def _matching(character: str) -> str:
    """Return a pattern for a character of a word, in its other case and in its wide form too."""
    if character == "…":
        return _NAME
    same = _WIDE.get(character) or "".join(dict.fromkeys((character.lower(), character.upper())))
    return re.escape(same) if len(same) == 1 else f"[{re.escape(same)}]"


def _following(trie: _Trie) -> str:
    """Return a pattern for what may follow. Where a word ends, longer ones that begin so need not be told."""
    if "" in trie:
        return ""
    ways = [matching + _following(rest) for matching, rest in trie.items()]
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"  # a group takes long to compile


@cache
def _table_search() -> "re.Pattern[str]":
    """Return what finds the words of the table; made when a text is first looked at, since it takes long."""
    return _searching(TABLE)


def broken(text: str) -> str:
    """Break each control word of the table in a text; the same again for one that was broken before."""
    return _table_search().sub(_break, text)


def breaking(words: Iterable[str]) -> Callable[[str], str]:
    """Return what does as `broken` does, for the words of one model's template besides those of the table."""
    more = [word for word in dict.fromkeys(words) if _may_control(word) and broken(word) == word]
    if not more:
        return broken
    search = _searching((*TABLE, *more))
    return lambda text: search.sub(_break, text)


def words_in(template: str) -> list[str]:
    """Return the control words that a chat template, in Jinja, may write into a prompt."""
    return list(dict.fromkeys(_IN_TEMPLATE.findall(template)))


def _may_control(word: str) -> bool:
    """Return True if a token may mark something: letters, blanks and what is a command of ours may not."""
    return 3 <= len(word) <= 64 and word[0] in _FIRST and not _OURS.search(word)


def _break(first: "re.Match[str]") -> str:
    return first[0] + BREAK


def cleaned(request: Request, broken: Break) -> Request:
    """Break the control words in a request, whoever wrote them: people, tools, the model itself.

    What a server handed out sealed (see `ProviderState`) is no part of a request, and goes back as it came.
    """
    lines = tuple(_line(line, broken) for line in request.lines)
    return replace(request, lines=lines, tools=tuple(_tool(tool, broken) for tool in request.tools))


def _line(line: Line, broken: Break) -> Line:
    match line:
        case SystemLine(text):
            return SystemLine(broken(text))
        case UserLine(text, images):
            return UserLine(broken(text), images)
        case AssistantLine(text, calls):
            return AssistantLine(broken(text), tuple(_call(call, broken) for call in calls))
        case ToolLine(call_id, name, text, images):
            return ToolLine(broken(call_id), broken(name), broken(text), images)
        case _:
            assert_never(line)


def _call(call: ToolCall, broken: Break) -> ToolCall:
    """Clean a call of the past. Some models write the ids of their calls themselves: they are text too."""
    return ToolCall(broken(call.id), broken(call.name), _arguments(call.arguments, broken))


def _arguments(arguments: str, broken: Break) -> str:
    """Return arguments with the same meaning.

    A server reads escapes too, in which a word may hide: `\\u003c/s>`.
    """
    plain = _ESCAPE.sub(_written_out, arguments) if "\\" in arguments else arguments
    clean = broken(plain)
    return arguments if clean == plain else clean


def _written_out(escape: "re.Match[str]") -> str:
    """Return the character that an escape of JSON stands for, where it may stand in a text by itself."""
    if escape[0] == r"\/":
        return "/"
    character = chr(int(escape[1], 16)) if escape[1] else ""
    return character if character.isprintable() and character not in ("", '"', "\\") else escape[0]


def _tool(tool: ToolSchema, broken: Break) -> ToolSchema:
    parameters = json.dumps(tool.parameters, ensure_ascii=False)
    clean = broken(parameters)  # nothing but a text in it can hold a word
    return ToolSchema(
        broken(tool.name),
        broken(tool.description),
        tool.parameters if clean == parameters else json.loads(clean),
    )
