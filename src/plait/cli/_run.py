"""`plait run`: runs a program as Python would and records it."""

from __future__ import annotations

import argparse
import importlib.util
import io
import linecache
import os
import signal
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from plait._errors import PlaitError, RecordingError
from plait.cli._parser import Parser

if TYPE_CHECKING:
    from plait.recorder import Record

_HERE = str(Path(__file__).resolve().parent.parent) + os.sep


@dataclass
class Program:
    """What is to run: its code, the name it goes by, and what Python would set for it."""

    code: types.CodeType
    argv: list[str]
    path0: str
    file: str | None
    spec: importlib.machinery.ModuleSpec | None
    name: str


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

    from plait.recorder import record

    recorder = record(
        output, values=options.values, limit=options.limit, overwrite=overwrite,
        program_files=frozenset({"<string>"} if options.command else ()),
    )  # fmt: skip
    recorder.add_meta(program=program.name, arguments=" ".join(program.argv[1:]))
    status, interrupted = _run(program, recorder)
    recorder.add_meta(exit_status=status)
    recorder.finish()
    stopped = recorder.stopped
    recorder.close()
    if not options.quiet and stopped is None:
        _report(output)
    if options.view and stopped is None:
        _view(output)
    if interrupted:  # end as Python does, so that a shell sees an interrupted program
        sys.stderr.flush()
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return status


def _report(output: Path) -> None:
    from plait.recording import load
    from plait.views import report

    try:
        shown: Path = output.relative_to(Path.cwd())
    except (ValueError, OSError):
        shown = output
    sys.stdout.flush()
    with load(output) as recording:
        recording.path = str(shown)
        print("\n" + report(recording), file=sys.stderr)


def _view(output: Path) -> None:
    import webbrowser

    from plait.recording import load
    from plait.views import is_page, page, write_page

    target = output.with_suffix(".html")
    if not is_page(target):
        print(f"plait: {target}: the file exists and is no page of plait; `plait view -o` names another",
              file=sys.stderr)  # fmt: skip
        return
    try:
        with load(output) as recording:
            write_page(target, page(recording))
    except PlaitError as error:  # the program has run; that its page cannot be written does not change its status
        print(f"plait: {error}", file=sys.stderr)
        return
    print(f"plait: {target}", file=sys.stderr)
    webbrowser.open(target.as_uri())


def _find(options: argparse.Namespace, rest: list[str]) -> Program:
    if options.command is not None:
        linecache.cache["<string>"] = (
            len(options.command), None, options.command.splitlines(keepends=True), "<string>"
        )  # fmt: skip
        code = _compile(options.command, "<string>")
        return Program(code, ["-c", *rest], "", None, None, "command")
    if options.module is not None:
        return _find_module(options.module, rest)
    if not rest:
        raise PlaitError("run: name a program: plait run SCRIPT, plait run -m MODULE or plait run -c CODE")
    script = rest[0]
    if os.path.isdir(script):
        inner = os.path.join(script, "__main__.py")
        if not os.path.exists(inner):
            raise PlaitError(f"{script}: can't find '__main__.py' in this folder")
        return Program(_read(inner), rest, script, inner, None, Path(script).resolve().name)
    return Program(_read(script), rest, str(Path(script).resolve().parent), script, None, Path(script).stem)


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
    code = spec.loader.get_code(spec.name)  # type: ignore[attr-defined]
    if code is None:
        raise PlaitError(f"run -m {name}: the module is not written in Python")
    return Program(code, [spec.origin or name, *rest], os.getcwd(), spec.origin, spec, name.rsplit(".", 1)[-1])


def _read(script: str) -> types.CodeType:
    try:
        with io.open_code(str(Path(script).absolute())) as file:
            return _compile(file.read(), script)
    except OSError as error:
        raise PlaitError(f"can't open {script!r}: {error.strerror}") from None


def _compile(source: str | bytes, name: str) -> types.CodeType:
    try:
        return compile(source, name, "exec", dont_inherit=True)
    except SyntaxError:  # the program's own fault: show it as Python does
        sys.excepthook(*_cleaned(sys.exc_info()[1]))
        raise SystemExit(1) from None
    except ValueError as error:
        raise PlaitError(f"{name}: {error}") from None


def _run(program: Program, recorder: Record) -> tuple[int, bool]:
    """(exit status, whether Ctrl-C ended it)."""
    main_module = types.ModuleType("__main__")
    vars(main_module).update(__file__=program.file, __builtins__=__builtins__, __spec__=program.spec, __cached__=None)
    if program.file is None:
        del main_module.__file__
    if program.spec is not None:
        main_module.__package__ = program.spec.parent
        main_module.__loader__ = program.spec.loader
    sys.modules["__main__"] = main_module
    sys.argv[:] = program.argv
    sys.path[0] = program.path0
    try:
        with recorder:
            exec(program.code, vars(main_module))
    except SystemExit as error:
        return _status(error), False
    except KeyboardInterrupt as error:
        sys.excepthook(*_cleaned(error))
        return 130, True
    except BaseException as error:
        sys.excepthook(*_cleaned(error))
        return 1, False
    return 0, False


def _status(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _cleaned(error: BaseException | None) -> tuple[type[BaseException], BaseException, types.TracebackType | None]:
    """The exception without the frames that are plait's, so the traceback is the program's own."""
    assert error is not None
    seen: set[int] = set()
    stack: list[BaseException | None] = [error]
    while stack:
        each = stack.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = _without_ours(each.__traceback__)
        stack += [each.__cause__, each.__context__]
    return type(error), error, error.__traceback__


def _without_ours(traceback: types.TracebackType | None) -> types.TracebackType | None:
    kept = []
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.startswith(_HERE):
            kept.append(traceback)
        traceback = traceback.tb_next
    result = None
    for each in reversed(kept):
        result = types.TracebackType(result, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return result


def _default_name(name: str) -> str:
    rank = os.environ.get("RANK", "")
    several = os.environ.get("WORLD_SIZE", "1") != "1" and rank.isdigit()
    return f"{name}.rank{rank}.plait" if several else f"{name}.plait"


def _is_ours(path: Path) -> bool:
    from plait.recording import load

    if not path.exists():
        return False
    try:
        load(path).close()
    except RecordingError as error:
        return "newer plait" in str(error) or "damaged" in str(error)
    return True
