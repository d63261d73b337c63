"""The process in which llama.cpp runs: settings in as one JSON line, its address out as another.

It is started as a script, imports nothing of Pixi, and ends when its standard input closes: a parent that
was killed leaves no orphan. A process of its own, because loading a model holds Python's lock.
"""

import json
import os
import sys
import time
import traceback


def main() -> None:
    """Serve until standard input closes, and end at once, whatever happened.

    Not by `sys.exit`: a reply that is being written would be waited for, and llama.cpp's threads may
    hang the interpreter's own end.
    """
    status = 1
    try:
        serve()
        status = 0
    finally:
        if status:
            # llama.cpp says why in a thread of its own: the traceback would stand amid its lines, and `_exit`
            # would cut them short.
            time.sleep(0.5)
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)


def serve() -> None:
    """Serve on a free port of this machine until standard input closes."""
    settings = json.loads(sys.stdin.readline())
    # llama.cpp may write what it likes to standard output; the parent reads nothing there but the answer.
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.umask(0o077)  # the state of a slot holds the words of a talk

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = settings["path"]
    params.n_ctx = settings["context_tokens"]
    params.cpuparams.n_threads = settings["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [settings["api_key"]]
    params.n_parallel = 1
    # After each batch it tells how far it has read, and sees that nobody waits any more. Its usual batches of
    # 2,048 tokens read about as fast on a processor, and take half a minute there.
    params.n_batch = 256
    params.cache_ram_mib = settings["cache_mib"]  # where the prompts of other conversations wait
    params.slot_save_path = os.path.join(settings["slots"], "") if settings["slots"] else ""
    params.verbosity = 1  # errors alone
    params.fit_params = False  # it would read the file twice, to change settings that are set here
    params.ui = False
    server = xllamacpp.Server(params)
    try:
        answer.write(json.dumps({"address": server.listening_address}) + "\n")
        answer.flush()
        sys.stdin.read()
    except BrokenPipeError:
        sys.stderr.write("Whoever wanted this server is gone.\n")
    finally:
        # However it ended: the interpreter's own way out would wait for the server's threads for ever.
        os._exit(0)


if __name__ == "__main__":
    main()
