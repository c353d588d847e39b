"""Starts `plait run` many times without importing torch as often.

`python launcher.py` imports torch once, then reads one JSON request a line from stdin and forks: the child becomes
what `python -m plait WORDS...` would be in the given folder, with the given files as its stdin, stdout and stderr.
Answers: the child's process id; to {"wait": pid}, its wait status.
"""

import atexit
import contextlib
import gc
import json
import os
import signal
import sys
import threading

from plait.__main__ import main
from plait.recorder import record  # noqa: F401


def _serve() -> tuple[list[str], bool]:
    """In a forked child: the words of its command line, and whether it may skip taking torch apart at its end."""
    requests, answers = os.fdopen(os.dup(0), "r"), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        if "wait" in request:
            answer = os.waitpid(request["wait"], 0)[1]
        else:
            answer = os.fork()
            if not answer:
                requests.close()
                answers.close()
                os.chdir(request["folder"])
                for number, name in enumerate(request["files"]):
                    opened = os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                    os.dup2(opened, number)
                    os.close(opened)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                sys.path[0] = os.getcwd()
                sys.argv[1:] = request["words"]
                return list(request["words"]), request["quick"]
        answers.write(f"{answer}\n")
        answers.flush()
    os._exit(0)


if __name__ == "__main__":
    gc.freeze()
    words, quick = _serve()
    status = main(words)
    if quick:
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(AttributeError, ValueError):
                stream.flush()
        os._exit(status)
    sys.exit(status)
