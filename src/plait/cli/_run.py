"""`plait run`: runs a program as Python would and records it."""

from __future__ import annotations

import argparse
import atexit
import contextlib
import importlib.util
import io
import os
import pkgutil
import runpy
import signal
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import BuiltinImporter, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait._errors import PlaitError, RecordingError, say
from plait._frames import artifacts
from plait.cli._parser import Parser

if TYPE_CHECKING:
    from plait.recorder import Record


@dataclass
class Program:
    """What is to run, and what Python would set for it."""

    name: str
    argv: list[str]
    path0: str
    facts: dict[str, Any]  # what its `__main__` begins with
    start: Callable[[], object]  # runs it in `sys.modules["__main__"]`
    texts: dict[str, str]  # source that stands in no file


def _parser() -> Parser:
    parser = Parser(
        prog="plait run",
        usage="plait run [-o FILE] [-f] [-q] [--view] [--values stats] (SCRIPT | -m MODULE | -c CODE) [ARGS ...]",
        description="Run a program as Python would, record the graphs it builds, and print what it did on stderr.",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the recording (default: the program's name, .plait)")
    parser.add_argument("-f", "--force", action="store_true", help="overwrite FILE")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no report at the end")
    parser.add_argument("--view", action="store_true", help="at the end write the page, too, and open it")
    parser.add_argument(
        "--values", choices=["loss", "stats"], default="loss",
        help="stats: also measure the gradients at every backward node (slower)",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=int, default=100_000, metavar="N", help="how many distinct graphs to keep (default: 100,000)"
    )
    parser.add_argument("-m", dest="module", metavar="MODULE", help="run a module, as python -m")
    parser.add_argument("-c", dest="command", metavar="CODE", help="run a string, as python -c")
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT ARGS", help="the program and its arguments"
    )
    return parser


def _split(arguments: Sequence[str]) -> list[str]:
    """Put `--` where the program's own arguments begin, so that they stay the program's."""
    takes_value = {"-o", "--output", "--values", "--limit"}
    index = 0
    while index < len(arguments):
        each = arguments[index]
        if each == "--":
            break
        if each in ("-m", "-c"):
            return [*arguments[: index + 2], "--", *arguments[index + 2 :]]
        if not each.startswith("-") or each == "-":
            return [*arguments[:index], "--", *arguments[index:]]
        index += 2 if each in takes_value else 1
    return list(arguments)


def main(words: Sequence[str]) -> int:
    """Run the program; its exit status."""
    options = _parser().parse_args(_split(words))
    rest = options.program[1:] if options.program[:1] == ["--"] else options.program
    program = _find(options, rest)
    output = Path(options.output or _default_name(program.name)).absolute()
    overwrite = options.force or (options.output is None and _is_ours(output))
    if output.exists() and not overwrite and options.output is None:
        raise RecordingError(f"{output.name}: the file exists and is no recording; name another with -o")

    ended_by_interrupt: list[bool] = []
    atexit.register(_end_as_interrupted, ended_by_interrupt)  # first, so that it runs after the program's own

    from plait.notes import explain_error
    from plait.recorder import record

    recorder = record(
        output, values=options.values, limit=options.limit, overwrite=overwrite, program_texts=program.texts,
        on_error=explain_error,
    )  # fmt: skip
    if _several_ranks():
        recorder.save_while_stuck()
    recorder.add_meta(program=program.name, arguments=" ".join(program.argv[1:]))
    status = _run(program, recorder)
    if status == INTERRUPTED:
        ended_by_interrupt.append(True)
    recorder.add_meta(exit_status=status)
    recorder.finish()
    stopped = recorder.stopped
    recorder.close()
    if not options.quiet and stopped is None:
        _report(output)
    if options.view and stopped is None:
        _view(output)
    return status & 0xFF


INTERRUPTED = 0x100 + 130


def _end_as_interrupted(ended_by_interrupt: list[bool]) -> None:
    """End by the signal, as Python does after Ctrl-C, so that a shell sees an interrupted program."""
    if ended_by_interrupt:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)


def _report(output: Path) -> None:
    """Print it on stderr. Whatever goes wrong here, the program has run and its exit status stands."""
    from plait import report
    from plait.recording import load
    from plait.views import colours, fit, width

    try:
        shown: Path = output.relative_to(Path.cwd())
    except (ValueError, OSError):
        shown = output
    try:
        with load(output) as recording:
            recording.path = str(shown)
            text = report(recording, colour=colours(sys.stderr), width=width(sys.stderr))
    except PlaitError as error:
        text = f"plait: {error}"
    except Exception as error:
        text = f"plait: the report failed ({type(error).__name__}: {error}); the recording is in {shown}"
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    say("\n" + fit(text, getattr(sys.stderr, "encoding", None)))


def _view(output: Path) -> None:
    from plait._api import view
    from plait.recording import load
    from plait.views import is_page

    target = output.with_suffix(".html")
    if not is_page(target):
        print(f"plait: {target}: the file exists and is no page of plait; `plait view -o` names another",
              file=sys.stderr)  # fmt: skip
        return
    try:
        with load(output) as recording:
            view(recording).open(target)
    except Exception as error:  # the program has run; that its page cannot be shown does not change its status
        print(f"plait: the page cannot be shown: {error}", file=sys.stderr)
        return
    print(f"plait: {target}", file=sys.stderr)


def _find(options: argparse.Namespace, rest: list[str]) -> Program:
    if options.command is not None:
        code = _compile(options.command, "<string>")
        texts = {"<string>": options.command}
        return Program("command", ["-c", *rest], "", {"__loader__": BuiltinImporter}, _execute(code), texts)
    if options.module is not None:
        return _find_module(options.module, rest)
    if not rest:
        raise PlaitError("run: name a program: plait run SCRIPT, plait run -m MODULE or plait run -c CODE")
    script = rest[0]
    name = Path(script).resolve().stem
    if pkgutil.get_importer(script) is not None:  # a folder or an archive with a `__main__.py`
        if os.path.isdir(script) and not os.path.exists(os.path.join(script, "__main__.py")):
            raise PlaitError(f"{script}: can't find '__main__.py' in this folder")
        start = runpy._run_module_as_main  # type: ignore[attr-defined]
        return Program(name, rest, os.path.abspath(script), {}, lambda: start("__main__", False), {})
    file = script if os.path.isabs(script) else os.path.join(os.getcwd(), script)
    code = _compile(_read(script), file)
    facts = {"__file__": file, "__cached__": None, "__loader__": SourceFileLoader("__main__", file)}
    return Program(name, rest, os.path.dirname(os.path.realpath(file)), facts, _execute(code), {})


def _find_module(name: str, rest: list[str]) -> Program:
    sys.path.insert(0, os.getcwd())
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(name + ".__main__")
    except (ImportError, ValueError) as error:
        raise PlaitError(f"run -m {name}: {error}") from None
    finally:
        del sys.path[0]
    if spec is None or spec.loader is None:
        raise PlaitError(f"run -m {name}: there is no module of this name, or it is a package that cannot be run")
    start = runpy._run_module_as_main  # type: ignore[attr-defined]
    return Program(name.rsplit(".", 1)[-1], ["-m", *rest], os.getcwd(), {}, lambda: start(name), {})


def _execute(code: types.CodeType) -> Callable[[], object]:
    return lambda: exec(code, vars(sys.modules["__main__"]))


def _read(script: str) -> bytes:
    try:
        with io.open_code(str(Path(script).absolute())) as file:
            return file.read()
    except OSError as error:
        raise PlaitError(f"can't open {script!r}: {error.strerror}") from None


def _compile(source: str | bytes, name: str) -> types.CodeType:
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except SyntaxError as error:  # the program's own fault: show it as Python does
        _show(error)
        raise SystemExit(1) from None
    except ValueError as error:
        raise PlaitError(f"{name}: {error}") from None


def _run(program: Program, recorder: Record) -> int:
    """The exit status; INTERRUPTED if Ctrl-C ended it."""
    main_module = types.ModuleType("__main__")
    vars(main_module).update({"__annotations__": {}, "__builtins__": sys.modules["builtins"], **program.facts})
    sys.modules["__main__"] = main_module
    sys.argv[:] = program.argv
    if not sys.flags.safe_path:
        sys.path[0] = program.path0
    try:
        with recorder:
            program.start()
    except SystemExit as error:
        return _status(error)
    except BaseException as error:
        _show(error)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _show(error: BaseException) -> None:
    """Show an error that nobody caught, as Python does: through `sys.excepthook`, with the program's frames only."""
    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        each = stack.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _without_ours(each.__traceback__)
        stack += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            stack += each.exceptions
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    sys.excepthook(type(error), error, error.__traceback__)


def _without_ours(traceback: types.TracebackType | None) -> types.TracebackType | None:
    links = []
    while traceback is not None:
        links.append(traceback)
        traceback = traceback.tb_next
    only_here = artifacts([each.tb_frame.f_code for each in links])
    result = None
    for each, ours in reversed(list(zip(links, only_here))):
        if not ours:
            result = types.TracebackType(result, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return result


def _default_name(name: str) -> str:
    return f"{name}.rank{os.environ['RANK']}.plait" if _several_ranks() else f"{name}.plait"


def _several_ranks() -> bool:
    """Whether this is one process of a distributed job, as torchrun starts them."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and os.environ.get("RANK", "").isdigit()


def _is_ours(path: Path) -> bool:
    from plait.recording import load

    if not path.exists():
        return False
    try:
        load(path).close()
    except RecordingError as error:
        return "newer plait" in str(error) or "damaged" in str(error)
    return True
