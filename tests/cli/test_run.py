"""`plait run` beside plain `python`: the same output, the same errors, the same exit status."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import NamedTuple

import pytest

from plait import load

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the launcher forks")

SRC = Path(__file__).parents[2] / "src"
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SRC), "PLAIT_STRICT": "", "PYTHONUNBUFFERED": ""}


class Done(NamedTuple):
    status: int
    out: str
    err: str


class Launcher:
    """See `launcher.py`."""

    def __init__(self, scratch: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("launcher.py"))],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=scratch,
        )  # fmt: skip
        self._scratch = scratch

    def _ask(self, request: object) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def start(
        self, words: list[str], folder: Path, stdin: str = "", out: Path | None = None, quick: bool = True
    ) -> tuple[int, Path, Path]:
        """(process id, the files with its output and its errors so far)"""
        files = [self._scratch / name for name in ("in", "out", "err")]
        files[0].write_text(stdin)
        files[1].write_text("")
        files[2].unlink(missing_ok=True)
        if out is not None:
            files[1] = out
        process = self._ask(
            {"words": words, "quick": quick, "folder": str(folder), "files": [str(each) for each in files]}
        )
        return process, files[1], files[2]

    def wait(self, process: int) -> Done:
        status = os.waitstatus_to_exitcode(self._ask({"wait": process}))
        return Done(status, *((self._scratch / name).read_text() for name in ("out", "err")))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    made = Launcher(tmp_path_factory.mktemp("launcher"))
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "work"
    made.mkdir()
    return made


Run = Callable[..., Done]


@pytest.fixture
def plait(launcher: Launcher, folder: Path) -> Run:
    """`plait run` with these words, in `folder`."""

    def run(*words: str, stdin: str = "", quick: bool = True) -> Done:
        return launcher.wait(launcher.start(["run", *words], folder, stdin, quick=quick)[0])

    return run


@pytest.fixture
def python(folder: Path) -> Run:
    def run(*words: str, stdin: str = "") -> Done:
        done = subprocess.run(
            [sys.executable, *words], input=stdin, capture_output=True, text=True, cwd=folder, timeout=60,
            env=ENVIRONMENT,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr)

    return run


def write(path: Path, source: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(dedent(source))
    return path


# -- programs without tensors: everything that a program can see of how it was started ---------------------------

PROGRAMS = {
    "facts": """
        import sys
        print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__ and __spec__.name, __cached__, __doc__)
        print(sorted(globals()), type(__loader__).__name__, __annotations__, __builtins__)
        print(sys.modules["__main__"].__dict__ is globals(), sys.stdin.read().upper())
    """,
    "exit_number": "import sys; sys.exit(3)",
    "exit_large_number": "import sys; sys.exit(259)",
    "exit_none": "import sys; print('x'); sys.exit()",
    "exit_text": "import sys; sys.exit('something is missing')",
    "exit_object": "import sys; sys.exit(['a', 'list'])",
    "exit_true": "raise SystemExit(True)",
    "exit_at_once": "import os; print('lost', end=''); os._exit(7)",
    "signal_itself": "import os, signal; print('x', flush=True); os.kill(os.getpid(), signal.SIGTERM)",
    "error": """
        def inner():
            raise ValueError("two\\nlines")
        def outer():
            inner()
        outer()
    """,
    "error_with_cause_and_context": """
        def convert(text):
            try:
                return int(text)
            except ValueError as error:
                raise KeyError(text) from error
        try:
            convert("x")
        except KeyError:
            1 / 0
    """,
    "error_group": """
        def fail(error):
            raise error
        found = []
        for each in (ValueError("a"), KeyError("b")):
            try:
                fail(each)
            except Exception as error:
                found.append(error)
        raise ExceptionGroup("several", found)
    """,
    "error_in_excepthook": "import sys; sys.excepthook = lambda *error: print('hook', error[1]); 1 / 0",
    "error_in_a_thread": """
        import threading
        def fail():
            raise RuntimeError("in a thread")
        each = threading.Thread(target=fail, name="mine")
        each.start()
        each.join()
    """,
    "syntax_error": "print('never printed')\nif True print('x')\n",
    "syntax_warning": "x = 'a' is 'a'\n",
    "keyboard_interrupt": "import atexit; atexit.register(print, 'at exit'); print('x'); raise KeyboardInterrupt",
    "at_exit": """
        import atexit, sys
        atexit.register(lambda: print("last"))
        atexit.register(lambda: print("first", file=sys.stderr))
        class Late:
            def __del__(self):
                print("deleted")
        late = Late()
    """,
    "thread_that_goes_on": """
        import threading, time
        threading.Thread(target=lambda: (time.sleep(0.1), print("later"))).start()
        print("sooner")
    """,
    "warnings": """
        import warnings
        warnings.warn("once for each place")
        for _ in range(2):
            warnings.warn("old", DeprecationWarning)
        def deep():
            warnings.warn("of my caller", stacklevel=2)
        deep(); deep()
        deep()
    """,
    "change_folder": """
        import os, tempfile
        os.chdir(tempfile.gettempdir())
        print(__file__)
        raise OSError(__file__)
    """,
    "pickle": """
        import copy, pickle
        class Thing:
            def __init__(self): self.x = 1
        print(pickle.loads(pickle.dumps(Thing())).x, Thing.__module__, copy.deepcopy(Thing()).x)
        print(pickle.dumps(Thing()))
    """,
    "imports_its_neighbour": "import neighbour; print(neighbour.__file__, neighbour.X)",
    "annotations": "x: int = 3\nprint(__annotations__)",
    "future": "from __future__ import annotations\ndef f(x: Undefined): pass\nprint(f.__annotations__)",
    "inspect": "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f), inspect.getsourcefile(f))",
    "no_standard_error": "import sys; sys.stderr = None; print('x'); sys.exit(4)",
    "closed_output": "import sys; print('x'); sys.stdout.flush(); sys.stdout.close()",
    "fork": """
        import os, sys
        child = os.fork()
        if child:
            print("parent", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        else:
            print("child", flush=True)
            sys.exit(5)
    """,
}  # fmt: skip


TAKEN_APART = ("at_exit", "closed_output")  # programs that notice how Python itself ends


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_script_is_the_same(name: str, folder: Path, plait: Run, python: Run) -> None:
    write(folder / "neighbour.py", "X = 2")
    script = write(folder / "script.py", PROGRAMS[name]).name
    bare = python(script, "one", stdin="given\n")
    assert plait("-q", script, "one", stdin="given\n", quick=name not in TAKEN_APART) == bare
    assert (folder / "script.plait").exists() != (name == "syntax_error")


def test_the_programs_above_do_something(python: Run, folder: Path) -> None:
    """Both sides of a comparison could be empty."""
    write(folder / "s.py", PROGRAMS["error_with_cause_and_context"])
    done = python("s.py")
    assert "direct cause" in done.err and "During handling" in done.err and done.status == 1
    write(folder / "s.py", PROGRAMS["keyboard_interrupt"])
    assert python("s.py") == (-signal.SIGINT, "x\nat exit\n", python("s.py").err)


@pytest.mark.parametrize(
    "words",
    [
        ["sub/script.py", "-q", "-o", "x", "--values", "foo"],
        ["./sub/../sub/script.py", "--", "-f", "-m", "-c"],
        ["link.py", "run", "--help"],
        ["sub", "-q"],
        ["-m", "script", "-q", "-o", "x"],
        ["-m", "package", "-f"],
        ["-m", "package.inner", "-m", "other"],
        ["-c", "import sys; print(sys.argv, sys.path[0] == '', sorted(globals()), __loader__)", "-q", "-c"],
        ["-c", "def f():\n    import traceback\n    traceback.print_stack()\n    1/0\nf()"],
        ["-c", "if True print(1)"],
    ],
    ids=lambda words: words[0] + "_" + words[1][:7],
)
def test_ways_to_name_a_program(words: list[str], folder: Path, plait: Run, python: Run) -> None:
    facts = dedent(PROGRAMS["facts"])
    write(folder / "sub" / "script.py", facts)
    write(folder / "sub" / "__main__.py", facts)
    write(folder / "script.py", facts + "1 / 0\n")
    write(folder / "package" / "__init__.py", "print('init', __name__)")
    write(folder / "package" / "__main__.py", facts + "from . import inner\n")
    write(folder / "package" / "inner.py", facts)
    (folder / "link.py").symlink_to(folder / "sub" / "script.py")
    bare, recorded = python(*words), plait("-q", *words)
    if "print_stack" in words[-1]:  # the stack below the program is plait's: only its own frames are the program's
        bare, recorded = (
            each._replace(err=each.err[each.err.index('  File "<string>"') :]) for each in (bare, recorded)
        )
    assert recorded == bare


def test_torch_errors_and_warnings_are_the_same(folder: Path, plait: Run, python: Run) -> None:
    """An uncaught error through every kind of call that plait stands in: no frame of plait, and none twice."""
    script = write(
        folder / "script.py",
        """
        import torch, warnings
        import torch.nn.functional as F
        from torch import nn

        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, gradient):
                raise ArithmeticError("in backward")

        class Inner(nn.Module):
            def forward(self, x):
                F.softmax(x)
                nn.Softmax()(x)
                return F.cross_entropy(x, torch.ones(5).long())

        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Sequential(Inner())
            def forward(self, x):
                return self.inner(x)

        def closure():
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))

        for _ in range(2):
            torch.empty(0).std()
        torch.empty(0).std()
        F.mse_loss(torch.ones(3), torch.ones(3, 1))
        with warnings.catch_warnings(record=True) as caught:
            torch.empty(0).std()
        print([(str(each.message)[:20], each.filename, each.lineno) for each in caught])
        parameter = nn.Parameter(torch.ones(2))
        parameter.grad = torch.ones(2)
        try:
            try:
                Model()(torch.ones(2, 3))
            except ValueError as error:
                raise LookupError("first") from error
        except LookupError:
            try:
                Double.apply(torch.ones(1, requires_grad=True)).sum().backward()
            except ArithmeticError:
                try:
                    parameter.expand(3)[0]
                except RuntimeError:
                    torch.optim.LBFGS([parameter]).step(closure)
        """,
    ).name
    bare = python(script)
    assert bare.err.count("UserWarning") == 5 and bare.err.count("Traceback") == 5
    assert plait("-q", script) == bare
    with load(folder / "script.plait") as recording:
        assert recording.meta["status"] == "stopped by RuntimeError" and recording.meta["exit_status"] == "1"
        assert not recording.steps[-1].complete


def test_as_a_real_process_with_spawned_children(folder: Path, python: Run) -> None:
    """What the launcher only plays, once for real; children that `multiprocessing` spawns run without us."""
    script = write(
        folder / "script.py",
        """
        import multiprocessing, sys
        def work(x):
            return x * 2, __name__, sys.argv
        if __name__ == "__main__":
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(work, [1, 2]), sys.argv, sys.path[0])
            sys.exit(9)
        """,
    ).name
    assert python("-m", "plait", "run", "-q", script, "-q") == python(script, "-q")
    assert [each.name for each in folder.glob("*.plait")] == ["script.plait"]


@pytest.mark.parametrize(("many", "status"), [(1, 120), (100_000, 1)])
def test_a_closed_pipe(many: int, status: int, folder: Path, launcher: Launcher) -> None:
    """`program | head` ends as without us."""
    source = f"import time; time.sleep(0.3)\nfor _ in range({many}): print('line')\n"
    script = write(folder / "script.py", source).name
    bare = subprocess.Popen(
        [sys.executable, script],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert bare.stdout is not None and bare.stderr is not None
    bare.stdout.close()
    expected = bare.stderr.read()
    bare.stderr.close()
    assert bare.wait() == status and "BrokenPipeError" in expected
    for quiet in (["-q"], []):
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        process, _, errors = launcher.start(["run", *quiet, script], folder, out=pipe, quick=False)
        while not errors.exists():  # it is opened after the pipe
            time.sleep(0.01)
        os.close(reader)
        done = launcher.wait(process)
        pipe.unlink()
        assert done.status == status
        assert done.err == expected if quiet else "BrokenPipeError" in done.err and "steps" in done.err


# -- programs that are ended from outside ------------------------------------------------------------------------

TRAINING = """
    import atexit, time, torch
    atexit.register(print, "at exit")
    model = torch.nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    def main():
        step = 0
        while True:
            optimizer.zero_grad()
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            print(step, time.time(), flush=True)
            step += 1
            time.sleep(0.002)
    main()
"""


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "nothing came"
        time.sleep(0.02)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_ended_in_the_middle_of_training(sent: signal.Signals, folder: Path, launcher: Launcher) -> None:
    script = write(folder / "script.py", TRAINING).name
    process, out, _ = launcher.start(["run", "-q", script], folder)
    wait_for(lambda: out.exists() and out.read_text().count("\n") > 5)
    time.sleep(1.3)
    os.kill(process, sent)
    killed = time.time()
    done = launcher.wait(process)
    assert done.status == -sent
    lines = [line.split() for line in done.out.splitlines() if line[0].isdigit()]
    until = 0 if sent == signal.SIGINT else 1.0
    safe = sum(float(moment) < killed - until for _, moment in lines)
    assert safe > 10
    with load(folder / "script.plait") as recording:
        assert len(recording.steps) >= safe
        trained = [step for step in recording.steps if step.kind == "train" and step.complete]
        assert len({step.graph for step in trained}) == 1 and recording.graph_of(trained[-1]).legal() == []
        assert "main.py" not in recording.sources and any(name.endswith("script.py") for name in recording.sources)
        assert recording.meta["status"] == ("stopped by KeyboardInterrupt" if sent == signal.SIGINT else "running")
    if sent == signal.SIGINT:
        assert done.out.endswith("at exit\n")
        assert done.err.startswith("Traceback") and done.err.endswith("KeyboardInterrupt\n")
        assert str(SRC) not in done.err


def test_killed_in_one_long_step(folder: Path, launcher: Launcher) -> None:
    """A step that never ends is written too, about once a second."""
    script = write(folder / "s.py", "import torch\nx = torch.ones(2)\nwhile True: x = x * 0.5 + 1")
    process, _, _ = launcher.start(["run", "-q", script.name], folder)

    def some() -> bool:
        with contextlib.suppress(Exception), load(folder / "s.plait") as recording:
            return len(recording.steps) > 0
        return False

    wait_for(some)
    os.kill(process, signal.SIGKILL)
    launcher.wait(process)
    with load(folder / "s.plait") as recording:
        (step,) = recording.steps
        assert not step.complete and len(recording.graph_of(step).find("mul")) > 1000


def test_killed_while_it_writes(folder: Path, plait: Run) -> None:
    """What a half-written batch had changed is undone when the file is opened."""
    write(
        folder / "s.py",
        """
        import os, signal, sqlite3, torch
        from plait.recorder import _recorder
        record, = _recorder._active
        x = torch.ones(2, requires_grad=True)
        for _ in range(5):
            (x * 2).sum().backward()
        len(record.steps)
        record._connection.execute("PRAGMA cache_size = 1")
        record._connection.execute("PRAGMA cache_spill = 1")
        for _ in range(500):
            (x * 2).sum().backward()
        x + 1
        def trace(statement):
            if statement == "COMMIT":
                os.kill(os.getpid(), signal.SIGKILL)
        record._connection.set_trace_callback(trace)
        print(record.steps_keeper.count - record._writer.waiting, flush=True)
        len(record.steps)
        """,
    )
    done = plait("-q", "s.py")
    assert done.status == -signal.SIGKILL
    assert (folder / "s.plait-journal").exists()
    with load(folder / "s.plait") as recording:
        assert len(recording.steps) == int(done.out)
        assert recording.graph.legal() == []
    assert not (folder / "s.plait-journal").exists()


# -- what `plait run` itself says --------------------------------------------------------------------------------


def test_the_report_is_added_on_stderr(folder: Path, plait: Run) -> None:
    write(
        folder / "s.py",
        """
        import torch, plait
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
        with plait.record() as rec:
            (x * 3).sum().backward()
        print(x.grad, len(rec.steps), len(rec.graph.find("mul")))
        """,
    )
    recorded = plait("s.py", "arg")
    assert recorded[:2] == (0, "tensor([5., 7.]) 1 1\n")
    assert recorded.err.startswith("\nprogram   s arg   (python ") and "plait show s.plait" in recorded.err
    with load(folder / "s.plait") as recording:
        assert recording.meta["program"] == "s" and recording.meta["arguments"] == "arg"
        assert (recording.meta["status"], recording.meta["exit_status"]) == ("done", "0")


def test_default_names_and_overwriting(folder: Path, plait: Run) -> None:
    write(folder / "s.py", "print('ran')")
    for words, name in (
        (["s.py"], "s.plait"),
        (["-m", "s"], "s.plait"),
        (["-c", "print('ran')"], "command.plait"),
        (["-o", "a.plait", "s.py"], "a.plait"),
        (["-qoa2.plait", "s.py"], "a2.plait"),
        (["--output=b.plait", "s.py"], "b.plait"),
        (["-o", "a.plait", "-f", "s.py"], "a.plait"),
        (["-f", "--output", str(folder / "text"), "s.py"], "text"),
        (["--", "s.py"], "s.plait"),
    ):
        if name == "text":
            (folder / name).write_text("not ours, but -f was given")
        done = plait(*words)
        assert done[:2] == (0, "ran\n"), done
        with load(folder / name) as recording:
            assert recording.meta["exit_status"] == "0"


def refused(done: Done) -> str:
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("plait: ") and done.err.count("\n") == 1
    return done.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "run: name a program"),
        (["-q"], "run: name a program"),
        (["no.py"], "can't open 'no.py': No such file or directory"),
        (["-m", "no_such_module"], "run -m no_such_module: there is no module of this name"),
        (["-m", "no.such.module"], "run -m no.such.module: "),
        (["-m"], "expected one argument"),
        (["--values", "all", "s.py"], "invalid choice: 'all'"),
        (["--limit", "0", "s.py"], "limit=0"),
        (["--limit", "many", "s.py"], "invalid int value: 'many'"),
        (["--loud", "s.py"], "--loud"),
        (["-o", "missing/x.plait", "s.py"], "there is no folder"),
        (["-o", ".", "s.py"], "this is a folder; name a file to record into"),
        (["-f", "-o", ".", "s.py"], "this is a folder; name a file to record into"),
        (["-o", "taken.txt", "s.py"], "taken.txt: the file exists; use another name, or -f to overwrite it"),
        (["-o", "/proc/x.plait", "s.py"], "/proc/x.plait: cannot record into this file"),
        (["taken.py"], "taken.plait: the file exists and is no recording; name another with -o"),
        (["empty"], "empty: can't find '__main__.py' in this folder"),
    ],
    ids=lambda each: "_".join(each) if isinstance(each, list) else "",
)
def test_refusals(words: list[str], says: str, folder: Path, plait: Run) -> None:
    write(folder / "s.py", "print('ran')")
    write(folder / "taken.py", "print('ran')")
    (folder / "taken.txt").write_text("mine")
    (folder / "taken.plait").write_text("mine")
    (folder / "empty").mkdir()
    assert says in refused(plait(*words))
    assert (folder / "taken.txt").read_text() == (folder / "taken.plait").read_text() == "mine"


def test_somebody_elses_database_is_not_overwritten(folder: Path, plait: Run) -> None:
    write(folder / "s.py", "print('ran')")
    sqlite3.connect(folder / "s.plait").execute("CREATE TABLE mine (x)").connection.close()
    assert "the file exists and is no recording" in refused(plait("s.py"))


@pytest.mark.parametrize(
    "source",
    [
        "import os, shutil; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); print('ran')",
        "import sys; sys.stderr.close(); print('ran')",
        "import sys; sys.stdout = None; sys.__stdout__.write('ran\\n')",
        "import os; os.remove('s.plait'); print('ran')",
        "open('s.plait', 'w').write('rubbish'); print('ran')",
        "from plait import views; views.report = None; print('ran')",
        "import plait.recorder._steps as s; s.Steps.close = None; print('ran')",
        "import plait.recording._writer as w; w.Writer.flush = None; print('ran')",
    ],
)  # fmt: skip
def test_whatever_happens_to_the_report_the_exit_status_is_the_programs(source: str, folder: Path, plait: Run) -> None:
    write(folder / "s.py", source + "\nimport sys; sys.exit(6)")
    done = plait("s.py")
    assert done[:2] == (6, "ran\n")
    assert "Traceback" not in done.err


def test_the_command_itself_is_no_part_of_the_program(tmp_path: Path) -> None:
    command = Path(sysconfig.get_path("scripts"), "plait")
    (tmp_path / "program.py").write_text("import torch\n\ndef main():\n    torch.ones(2).sum().item()\n\nmain()\n")
    done = subprocess.run(
        [str(command), "run", "-q", "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=ENVIRONMENT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with load(tmp_path / "program.plait") as recording:
        frames = [region.label for region in recording.graph.regions if region.kind == "frame"]
    assert frames == ["<module>", "main"]
