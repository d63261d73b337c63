"""The tests that show what `docs/faults.md` says, by the first words of its rows."""

MODEL = "tests/faults/test_model_server.py::test_a_server_in_trouble"
REPLY = "tests/faults/test_model_server.py::test_a_reply_that_goes_wrong"
CALLS = "tests/faults/test_model_server.py::test_calls_that_are_odd"
SERVER = "tests/faults/test_model_server.py::"
FUNCTIONS = "tests/faults/test_functions.py::"
STORE = "tests/faults/test_store.py::"
CLOCK = "tests/faults/test_clock.py::"
BOT = "tests/faults/test_on_discord.py::"
TURNS = "tests/end_to_end/test_discord_turns.py::"
INPUT = "tests/end_to_end/test_discord_bad_input.py::"
HEARING = "tests/end_to_end/test_discord_hearing.py::"
GATEWAY = "tests/channels/discord/test_reconnecting.py::"
RESTART = "tests/end_to_end/test_discord_restart.py::"
LEAVING = "tests/engine/test_winding_down.py::"
RECOVERY = "tests/engine/test_recovery.py::"
KILL = "tests/kill/test_kill.py::"
CUTS = "tests/store/test_postgres_cuts.py::"
TOOLS = "tests/end_to_end/test_discord_tools.py::"
HOSTILE = "tests/web/test_hostile_urls.py::"
FETCHING = "tests/web/test_fetching.py::"
PAGES = "tests/web/test_pages.py::"
WIKIS = "tests/web/test_wiki_walls.py::"
ROGUES = "tests/mcp/test_rogues.py::"
CONSENT = "tests/mcp/test_consent.py::"
LOADING = "tests/addons/test_loading.py::"
GIFS = "tests/addons/test_gifs.py::"

TESTS: dict[str, tuple[str, ...]] = {
    # The model's server.
    "The connection is reset": (
        MODEL + "[reset before the headers]",
        MODEL + "[closed before the headers]",
        MODEL + "[reset during the headers]",
        MODEL + "[closed after the headers]",
        MODEL + "[reset after the headers]",
        MODEL + "[a content length that lies]",
        MODEL + "[reset, then fine]",
        REPLY + "[reset in a thought]",
        SERVER + "test_a_connection_that_breaks_between_call_and_answer",
        BOT + "test_a_model_server_that_is_down_for_a_while",
    ),
    "It breaks after something was said": (
        MODEL + "[reset in the middle]",
        MODEL + "[cut in the middle]",
        REPLY + "[reset in a message]",
        TURNS + "test_a_stream_that_breaks_after_a_message_says_it_once_and_nothing_else",
    ),
    "Nobody listens at its address": (MODEL + "[connection refused]",),
    "Its name is not known (DNS)": (MODEL + "[no such host]",),
    "Its certificate is not trusted, or it speaks no TLS": (
        MODEL + "[self-signed certificate]",
        MODEL + "[expired certificate]",
        MODEL + "[plain HTTP on a TLS port]",
    ),
    "The key is wrong (401), or may not (403)": (
        MODEL + "[401]",
        MODEL + "[403]",
        SERVER + "test_a_persona_without_words_for_it",
        TURNS + "test_a_dead_model_is_told_of_in_character_and_the_operator_learns_why",
    ),
    "The account is empty (402)": (MODEL + "[402]",),
    "It limits how often (429), with `Retry-After` or without": (
        MODEL + "[429 without a header]",
        MODEL + "[429 without a header, then fine]",
        MODEL + "[429 with Retry-After, then fine]",
        MODEL + "[429 with a long Retry-After]",
    ),
    "It fails (500, 503, an error inside the stream)": (
        MODEL + "[500]",
        MODEL + "[500, then fine]",
        MODEL + "[502 and 503, then fine]",
        MODEL + "[503]",
        MODEL + "[an empty body]",
        MODEL + "[an error in a 200]",
        MODEL + "[an error in a 200, then fine]",
        MODEL + "[an error in a stream]",
        MODEL + "[an error in the middle]",
    ),
    "The model was removed, or the address changed (a redirect)": (
        MODEL + "[404, the model was removed]",
        MODEL + "[a redirect to elsewhere]",
    ),
    "Another content type, or another JSON": (
        MODEL + "[another content type]",
        MODEL + "[another JSON]",
    ),
    "A web page instead of JSON": (
        MODEL + "[HTML instead of JSON]",
        MODEL + "[502, a proxy's page]",
    ),
    "Something that is not HTTP": (MODEL + "[not HTTP]",),
    "Silence before the first word": (
        MODEL + "[a stall before the headers]",
        MODEL + "[a stall before the first byte]",
        MODEL + "[half an error's body]",
        MODEL + "[framing that breaks]",
    ),
    "Silence after the first words": (
        MODEL + "[a stall in the middle]",
        REPLY + "[a stall after a thought]",
    ),
    "Only keep-alive pings": (
        MODEL + "[pings only]",
        MODEL + "[empty pieces only]",
        MODEL + "[pings in the middle]",
    ),
    "A reply that never ends": (
        REPLY + "[a reply without an end]",
        INPUT + "test_a_model_that_writes_ten_thousand_commands_is_stopped",
    ),
    "A flood: a line without an end, a gzip bomb": (
        MODEL + "[one line of 50 MB]",
        MODEL + "[a line of 50 MB in the middle]",
        MODEL + "[an endless stream without a line end]",
        MODEL + "[an endless object]",
        MODEL + "[an endless tool call]",
        MODEL + "[a gzip bomb]",
        MODEL + "[a gzip bomb for an error]",
    ),
    "One byte at a time, a letter cut in two": (
        MODEL + "[pieces of one byte]",
        MODEL + "[UTF-8 cut in two]",
        "tests/models/test_openai_chat.py::test_utf8_cut_between_chunks",
    ),
    "A broken event, bytes that are no text": (MODEL + "[a broken event]",),
    "No end mark, no reason for the end, or no end of the connection after it": (
        MODEL + "[no end mark]",
        MODEL + "[no reason and no end mark]",
        MODEL + "[broken off after the reason]",
        MODEL + "[left open after the reason]",
        MODEL + "[left open after the end mark]",
    ),
    "A reply in one piece, or with a wrong type or length": (
        MODEL + "[not streamed]",
        MODEL + "[the content type of a page's text]",
        MODEL + "[more than its content length]",
    ),
    "The token limit cuts a message": (
        REPLY + "[cut at the token limit]",
        TURNS + "test_a_message_that_the_token_limit_cut_is_posted",
    ),
    "Nothing, or a note alone": (TURNS + "test_silence_is_one_request_and_no_message",),
    "Text without a command": (TURNS + "test_plain_text_is_delivered_once",),
    # Tools and addons.
    "Tool calls in pieces, out of order, without an index": (
        CALLS + "[indices out of order]",
        CALLS + "[no index]",
    ),
    "A call and `finish_reason: stop`": (CALLS + "[a reason that says stop]",),
    "Arguments that are wrong or no JSON, an unknown tool": (
        CALLS + "[arguments that are no JSON]",
        CALLS + "[arguments that are no object]",
        CALLS + "[wrong arguments]",
        CALLS + "[an unknown tool]",
    ),
    "An endless loop of calls": (SERVER + "test_an_endless_loop_of_calls",),
    "A server that takes no tools": (SERVER + "test_a_server_that_takes_no_tools",),
    "A provider that refuses to search the web": (
        "tests/models/test_responses.py::test_a_server_that_will_not_search_is_asked_without_from_then_on",
        "tests/engine/test_searching.py"
        "::test_where_the_provider_refuses_the_tool_of_ours_is_offered_from_the_next_reply_on",
    ),
    "A tool raises": (FUNCTIONS + "test_a_tool_that_raises",),
    "A command raises or hangs": (
        FUNCTIONS + "test_a_command_that_raises",
        FUNCTIONS + "test_a_command_that_hangs",
    ),
    "A tool hangs": (FUNCTIONS + "test_a_tool_that_hangs",),
    "A tool answers with 50 MB": (FUNCTIONS + "test_a_tool_that_answers_with_fifty_megabytes",),
    "A tool's own server dies": (FUNCTIONS + "test_a_tool_whose_server_dies",),
    "An MCP server dies": (
        ROGUES + "test_one_that_dies_is_restarted_and_its_tools_say_so",
        ROGUES + "test_each_pause_is_longer_until_the_longest",
        "tests/mcp/test_real_servers.py::test_a_server_that_is_killed_comes_back",
        "tests/app/test_mcp_servers.py::test_tools_stay_while_a_server_is_away",
    ),
    "An MCP server hangs, as it starts, lists its tools or is called": (
        ROGUES + "test_what_is_no_server_is_named",
        ROGUES + "test_one_that_hangs_over_its_list",
        ROGUES + "test_a_call_that_hangs_is_bounded",
        ROGUES + "test_a_call_that_is_cancelled_is_cancelled_there",
        "tests/app/test_mcp_servers.py::test_one_that_is_dead_holds_nobody_up",
    ),
    "An MCP server floods: notices without end, 50 MB, a line that never ends": (
        ROGUES + "test_a_flood_does_not_stop_the_loop",
        ROGUES + "test_a_result_of_fifty_megabytes_is_refused",
        ROGUES + "test_a_line_without_end",
        "tests/mcp/test_network.py::test_a_result_that_is_too_long",
    ),
    "A program or an address that is no MCP server, or one that lies": (
        ROGUES + "test_what_is_no_server_is_named",
        ROGUES + "test_answers_that_nobody_asked_for",
        ROGUES + "test_answers_that_are_none",
        ROGUES + "test_two_tools_of_one_name",
        "tests/mcp/test_network.py::test_what_is_no_server_is_named",
    ),
    "An MCP server would run another command, or describes a tool otherwise": (
        CONSENT + "test_another_command_is_not_started",
        CONSENT + "test_a_tool_that_is_described_otherwise_is_left_out",
        CONSENT + "test_a_lock_file_that_cannot_be_read_stops_all_and_stays",
        "tests/cli/test_approve.py::test_a_command_that_changed",
        "tests/cli/test_approve.py::test_a_description_that_changed",
    ),
    "An address of the web that leads into your own network: by its numbers, its name, a redirect": (
        HOSTILE + "test_refused_without_a_packet",
        HOSTILE + "test_name_that_leads_inside",
        HOSTILE + "test_name_is_looked_up_once_and_what_was_checked_is_dialled",
        HOSTILE + "test_redirect_that_leads_inside",
        "tests/end_to_end/test_web_pages.py::test_nothing_of_the_private_network_is_read",
    ),
    "A page of the web that is a bomb, packed or nested, or never ends": (
        FETCHING + "test_gzip_bomb_is_stopped_early",
        FETCHING + "test_time_is_up_whatever_trickles_in",
        PAGES + "test_page_that_is_a_bomb_neither_stalls_nor_grows_this_process",
        PAGES + "test_billion_laughs",
    ),
    "A wiki behind a wall: a check for browsers, a login, a web page in place of data": (
        WIKIS + "test_a_wall_is_told_in_words",
        WIKIS + "test_what_went_wrong_is_not_tried_again_at_once",
    ),
    "A wiki that is busy, or wants to rest": (
        WIKIS + "test_a_wiki_that_wants_a_moment_gets_it",
        WIKIS + "test_a_wiki_that_wants_to_rest_is_not_asked_meanwhile",
    ),
    "Who searches the web is away, sends programs away, or gives no JSON": (
        "tests/web/test_duckduckgo.py::test_why_there_is_nothing_is_told_in_words",
        "tests/web/test_duckduckgo.py::test_a_server_that_is_not_there_or_is_another_is_told_of",
        "tests/web/test_searxng.py::test_what_is_to_be_mended_is_told",
        "tests/addons/test_web_search.py::test_the_server_is_looked_for_when_it_is_wanted",
    ),
    "A page behind a login or a check for people, or on a site that is down": (
        FETCHING + "test_refusal_is_told_in_words",
        FETCHING + "test_nobody_there",
        PAGES + "test_walls_are_told_in_words",
    ),
    "No picture comes for `[GIF: …]`: its service is down, slow, or was asked too often": (
        GIFS + "test_trouble_is_shown_to_nobody_and_told_to_the_log_once",
        GIFS + "test_what_stands_behind_waits_no_longer_than_patience_has",
    ),
    "The model dies after a tool changed something": (
        FUNCTIONS + "test_a_model_that_dies_while_a_tool_runs",
    ),
    "An addon cannot be loaded": (
        LOADING + "test_an_addon_that_fails_is_named_and_leaves_nothing_behind",
        FUNCTIONS + "test_a_plain_function_is_refused_with_the_mend",
        "tests/end_to_end/test_piped_chat.py::test_addons_bring_commands_and_a_broken_one_is_left_out",
    ),
    "An addon blocks everybody (`time.sleep`, a request without `await`)": (
        FUNCTIONS + "test_a_function_that_blocks_everybody",
        FUNCTIONS + "test_who_is_answered_elsewhere_does_not_pay_for_it",
        BOT + "test_an_addon_that_blocks_is_named_to_the_operator",
    ),
    # People.
    "Two quick messages": (TURNS + "test_two_quick_messages_get_one_reply",),
    "A message while a reply is written": (
        TURNS + "test_a_message_after_something_was_seen_is_answered_next",
    ),
    "The question is deleted or edited under its answer": (
        HEARING + "test_a_deleted_question_is_not_answered",
        HEARING + "test_a_question_that_is_deleted_under_its_answer_ends_it_and_is_forgotten",
        INPUT + "test_a_message_that_is_deleted_under_the_reply_is_answered_without_pointing_at_it",
    ),
    "`/reset` during a reply": (TURNS + "test_a_reset_during_a_reply_leaves_nothing",),
    "Questions in two channels": (
        TURNS + "test_two_channels_of_a_server_are_answered_side_by_side",
        TURNS + "test_a_question_is_answered_where_it_was_asked_and_remembered_there",
    ),
    "A talk that grows for ever": (
        "tests/core/test_conversation.py::test_the_prompt_fits_and_holds_whole_turns",
        "tests/engine/test_turns.py::test_every_request_is_the_last_one_plus_a_tail",
    ),
    "Another bot, its own words, a word like its name": (
        TURNS + "test_other_bots_are_ignored",
        TURNS + "test_its_own_words_are_not_answered",
        "tests/channels/discord/test_addressing.py::test_a_name_calls_its_resident_as_a_whole_word",
    ),
    "Somebody who is not on the allow-list": (
        "tests/channels/discord/test_access.py::test_every_combination_of_the_lists_is_decided_as_promised",
    ),
    "Somebody asks for what they may not do": (
        TOOLS + "test_a_tool_for_managers_goes_by_who_asks_at_that_moment",
        "tests/engine/test_tool_guards.py::test_every_combination_ends_as_the_first_guard_says",
    ),
    # Discord.
    "More than 2,000 characters": (TURNS + "test_more_than_two_thousand_characters_come_in_parts",),
    "`@everyone` in a reply": (TURNS + "test_nobody_is_pinged_by_what_a_model_writes",),
    "403, 404, 50035: a permission, the channel, the form": (
        INPUT + "test_what_is_refused_for_good_is_asked_once_and_the_model_is_not_asked_again",
        INPUT + "test_a_missing_permission_costs_one_channel_and_one_clear_line",
        BOT + "test_both_at_once",
    ),
    "The channel is deleted under the reply": (
        INPUT + "test_a_channel_that_is_deleted_under_the_reply_ends_that_reply_alone",
    ),
    "Its limits (429), and requests that fail": (
        INPUT + "test_limits_of_discord_are_waited_out_in_order",
        BOT + "test_a_discord_that_drops_every_second_request",
    ),
    "A post of which no answer came": (
        INPUT + "test_a_message_that_cannot_be_told_as_posted_is_posted_once",
    ),
    "An event that comes twice (RESUME)": (TURNS + "test_an_event_that_comes_twice_is_answered_once",),
    "The connection is lost, the session too": (
        TURNS + "test_what_came_while_the_connection_was_down_is_replayed_and_answered_once",
        TURNS + "test_what_was_missed_in_a_lost_session_is_caught_up_with_in_order",
    ),
    "A frame of the gateway that nobody can read (HTML, broken compression)": (
        GATEWAY + "test_a_frame_that_nobody_can_read_costs_a_connection_and_a_line",
        GATEWAY + "test_a_gateway_that_brings_nothing_but_garbage_is_asked_ever_more_seldom",
    ),
    "A message that holds what nobody can read (what it answers, a reaction, a poll)": (
        "tests/channels/discord/test_completing.py::"
        "test_the_words_of_a_message_are_heard_whatever_is_odd_beside_them",
    ),
    "A webhook that fails, while the history shows that nothing was posted": (
        "tests/end_to_end/test_discord_elsewhere.py::test_a_webhook_that_posts_nothing_gives_way_to_the_bot",
    ),
    # The store.
    "SQLite is locked for a moment": (STORE + "test_a_lock_for_a_moment_is_waited_out",),
    "SQLite is locked for more than five seconds": (
        STORE + "test_a_lock_for_more_than_five_seconds_is_told_of_once",
        STORE + "test_what_cannot_be_received_is_told_of_where_it_was_said",
    ),
    "The disk is full, at any write": (
        STORE + "test_a_disk_that_is_full_at_any_write",
        "tests/store/test_store_faults.py::test_a_full_disk",
    ),
    "PostgreSQL is started again in the midst of a turn": (
        CUTS + "test_a_server_that_is_started_again_while_turns_are_under_way",
    ),
    "The file is damaged": ("tests/store/test_damage.py::test_what_can_be_read_is_carried_over",),
    "Two processes on one store": ("tests/faults/test_processes.py::test_two_processes_on_one_store",),
    # The computer.
    "It is killed (SIGKILL), at any point of a turn": (
        KILL + "test_nothing_is_lost_or_said_twice_however_often_it_is_killed",
    ),
    "It is asked to end (SIGTERM), at any point of a turn": (
        KILL + "test_nothing_is_lost_or_said_twice_however_often_it_is_killed",
        RESTART + "test_leaving_finishes_the_message_that_is_open_and_nothing_after_it",
        RESTART + "test_a_message_that_never_closes_does_not_hinder_leaving",
    ),
    "It ends after a tool changed something, before a word was said": (
        LEAVING + "test_who_ordered_something_and_was_told_nothing_is_told_so_by_the_next_process",
        RECOVERY + "test_what_a_tool_changed_before_the_crash_is_told_and_not_done_again",
    ),
    "The clock jumps, both ways": (
        CLOCK + "test_a_jump_in_the_middle_of_a_reply",
        CLOCK + "test_how_often_a_tool_was_used_is_counted_by_another_clock",
        CLOCK + "test_a_bot_whose_clock_jumps_talks_on",
    ),
    "The clock is hours ahead at a start": (
        CLOCK + "test_what_came_while_it_was_away_is_as_old_as_the_clock_says",
    ),
}
"""A part of a test stands in brackets after its name."""
