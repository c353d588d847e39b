"""Recording beside others: other recordings, threads, forks, errors, and faults of its own."""

from __future__ import annotations

import multiprocessing
import os
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import plait
from plait.recorder import _backward, _calls, _cuts, _layers, _optimizers, _steps, _tape
from plait.recording import _writer


class Watched(torch.optim.Optimizer):
    """Somebody's own optimizer."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter -= 0.1 * parameter.grad


def patched() -> dict[str, Any]:
    """Everything that a recording replaces."""
    for kind in (Watched, torch.optim.SGD):
        kind([torch.ones(1, requires_grad=True)])  # the first of a class wraps its step
    return {
        "call": nn.Module.__dict__["__call__"],
        "module_zero_grad": nn.Module.__dict__["zero_grad"],
        "apply": torch.autograd.Function.__dict__["apply"],
        "compile": torch.compile,
        "zero_grad": torch.optim.Optimizer.__dict__["zero_grad"],
        "prepare": torch.optim.Optimizer.__dict__["_patch_step_function"],
        "sgd": torch.optim.SGD.__dict__["step"],
        "own": Watched.__dict__["step"],
        "run": threading.Thread.__dict__["run"],
        "thread": threading.Thread.__dict__["_bootstrap_inner"],
        "show": warnings._showwarnmsg,  # type: ignore[attr-defined]
        "modes": torch._C._len_torch_function_stack(),
        "layers": list(_layers.layers),
    }


def program() -> float:
    """A little of everything."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    total = 0.0
    for length in (1, 2, 1):
        optimizer.zero_grad()
        loss = model(torch.ones(length, 3)).square().mean()
        if loss > 0:
            loss = loss * 2
        loss.backward()
        optimizer.step()
        total += loss.item() + float(model[0].weight.grad.norm())
        with torch.no_grad():
            total += model(torch.ones(1, 3)).sum().item()
    x = torch.ones(2, requires_grad=True)
    (gradient,) = torch.autograd.grad((x * 3).sum(), x)
    with pytest.raises(RuntimeError):
        torch.ones(2) @ torch.ones(3)
    return total + gradient.sum().item()


# -- everything is put back --------------------------------------------------------------------------------------


def test_everything_is_put_back() -> None:
    before = patched()
    with plait.record():
        during = patched()
        program()
    assert patched() == before
    same = {name for name in before if before[name] is during[name] and name not in ("modes",)}
    assert same == {"run"}


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_everything_is_put_back_after_an_error(error: type[BaseException]) -> None:
    before = patched()

    class Fails(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x * 2
            raise error("mine")

    model = nn.Sequential(Fails())
    with pytest.raises(error, match="mine") as caught, plait.record() as rec:
        model(torch.ones(2))
    assert patched() == before and not rec.active
    assert caught.value.__cause__ is None and caught.value.__context__ is None
    assert rec.meta["status"] == f"stopped by {error.__name__}"
    assert not rec.steps[-1].complete and rec.graph_of(rec.steps[-1]).find("mul")


@pytest.mark.parametrize("first_out", [0, 1])
def test_recordings_that_overlap_are_taken_off_in_any_order(first_out: int) -> None:
    before = patched()
    records = [plait.record(), plait.record()]
    for each in records:
        each.__enter__()
    torch.ones(2) * 2
    records[first_out].__exit__(None, None, None)
    torch.ones(2) * 3
    records[1 - first_out].__exit__(None, None, None)
    torch.ones(2) * 4
    assert patched() == before
    counts = [sum(len(each.graph_of(step).find("mul")) for step in each.steps) for each in records]
    assert counts == ([0, 2] if first_out == 0 else [1, 1])  # while both are on, the inner one records


def test_a_wrapper_that_somebody_puts_on_meanwhile_stays() -> None:
    original = nn.Module.__call__
    with plait.record() as rec:
        ours = nn.Module.__call__
        nn.Module.__call__ = lambda *args, **kwargs: ours(*args, **kwargs)  # type: ignore[method-assign]
        theirs = nn.Module.__call__
        nn.Linear(2, 2)(torch.ones(2))
    assert nn.Module.__call__ is theirs
    nn.Linear(2, 2)(torch.ones(2))
    nn.Module.__call__ = original  # type: ignore[method-assign]
    assert len(rec.graph.find("linear")) == 1


# -- several recordings ------------------------------------------------------------------------------------------


def test_the_innermost_of_nested_records_records() -> None:
    model = nn.Linear(2, 2)
    with plait.record() as outer:
        x = torch.ones(2, requires_grad=True)
        with plait.record() as inner:
            model(x).sum().backward()
        (x * 2).sum().backward()
    assert [node.op for node in inner.graph.nodes if node.kind == "op"] == ["linear", "sum"]
    found = [node.op for step in outer.steps for node in outer.graph_of(step).nodes if node.kind == "op"]
    assert [each for each in found if each != "ones"] == ["mul", "sum"]
    assert [kind for kind, _ in outer.notes] == ["inner"] and not inner.notes


def test_a_record_cannot_run_twice_at_once() -> None:
    rec = plait.record()
    with rec, pytest.raises(plait.PlaitError, match="this recording is already running"):
        rec.__enter__()
    assert not rec.active


def test_recording_twice_into_one_recorder() -> None:
    rec = plait.record()
    x = torch.ones(2, requires_grad=True)
    for _ in range(2):
        with rec:
            (x * 2).sum().backward()
        (x * 3).sum().backward()
    assert len(rec.steps) == 2 and rec.steps[0].graph == rec.steps[1].graph


def test_decorator_and_run() -> None:
    rec = plait.record()

    @rec
    def double(x: torch.Tensor, times: int = 1) -> torch.Tensor:
        """Doubles."""
        return double(x * 2, times - 1) if times else x

    assert double(torch.ones(1), times=2).item() == 4 and double.__doc__ == "Doubles."
    assert double(torch.ones(1)).item() == 2
    assert [len(rec.graph_of(step).find("mul")) for step in rec.steps] == [2, 1]
    other = plait.record()
    assert other.run(torch.add, torch.ones(1), other=torch.ones(1)).item() == 2
    assert other.graph.find("add")
    with pytest.raises(ZeroDivisionError):
        other.run(lambda: 1 / 0)
    assert not other.active


# -- threads and processes ---------------------------------------------------------------------------------------


class OwnThread(threading.Thread):
    """Overrides `run`, as many do."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(name="own")
        self._work = work

    def run(self) -> None:
        self._work()


@pytest.mark.parametrize("kind", [lambda work: threading.Thread(target=work, name="own"), OwnThread])
def test_the_work_of_threads_is_left_out_and_said_so(kind: Callable[..., threading.Thread]) -> None:
    results = []
    with plait.record() as rec:
        thread = kind(lambda: results.append(nn.Linear(2, 2)(torch.ones(2)) * 2))
        thread.start()
        thread.join()
        torch.ones(2) + 1
    assert results[0].requires_grad
    assert [node.op for node in rec.graph.nodes if node.kind == "op"] == ["ones", "add"]
    assert rec.notes == (("threads", "What other threads computed is not in the recording (own)."),)


def test_a_pool_of_threads_during_training() -> None:
    with ThreadPoolExecutor(2, thread_name_prefix="pool") as pool, plait.record() as rec:
        futures = [pool.submit(lambda: torch.ones(50).cumsum(0)[-1].item()) for _ in range(20)]
        program()
        assert {future.result() for future in futures} == {50.0}
    assert not any(rec.graph_of(step).find("cumsum") for step in rec.steps if step.graph is not None)
    assert [kind for kind, _ in rec.notes] == ["threads"]


def test_threads_that_only_look_are_not_mentioned() -> None:
    tensor = torch.ones(2, 3)
    seen = []
    with plait.record() as rec:
        thread = threading.Thread(
            target=lambda: seen.append((tensor.shape, tensor.size(0), tensor.dtype, tensor.device))
        )
        thread.start()
        thread.join()
        for _ in DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2):
            pass
    assert seen and rec.notes == ()


def test_an_error_in_a_thread_shows_no_frame_of_ours(capsys: Any) -> None:
    def fail() -> None:
        raise ValueError("in a thread")

    hook, threading.excepthook = threading.excepthook, threading.__excepthook__
    try:
        with plait.record():
            thread = threading.Thread(target=fail)
            thread.start()
            thread.join()
    finally:
        threading.excepthook = hook
    err = capsys.readouterr().err
    assert "ValueError: in a thread" in err and os.sep + "plait" + os.sep + "recorder" not in err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_is_inert(tmp_path: Any) -> None:
    path = tmp_path / "run.plait"
    x = torch.ones(2, requires_grad=True)
    with plait.record(path) as rec:
        (x * 2).sum().backward()
        rows = len(rec.tape.tokens)
        child = os.fork()
        if not child:
            status = 1
            try:
                for _ in range(10):
                    (x * 3).sum().backward()
                status = 7 if not rec.active and len(rec.tape.tokens) == rows else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        (x * 4).sum().backward()
    rec.close()
    with plait.load(path) as recording:
        assert [step.loss for step in recording.steps] == [4.0, 8.0]


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_data_loader_workers() -> None:
    data = TensorDataset(torch.arange(8.0).reshape(4, 2))
    model = nn.Linear(2, 1)
    with warnings.catch_warnings(), plait.record() as rec:
        warnings.simplefilter("ignore")
        loader = DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="fork")
        for (batch,) in loader:
            model(batch).sum().backward()
    assert [step.kind for step in rec.steps if step.kind == "train"] == ["train"] * 2
    assert rec.notes == ()


# -- faults of plait itself --------------------------------------------------------------------------------------

FAULTS: list[tuple[Any, str]] = [
    (_calls.CallStack, "switch"), (_calls.CallStack, "site_of"), (_tape.Tape, "unknown"), (_tape.Tape, "entry"),
    (_tape.Tape, "sample"), (_tape.Tape, "append"), (_tape.Tape, "clear"), (_tape.Tape, "mode_switched"),
    (_tape, "note_error"), (_tape.Tape, "number_of"), (_tape.Tape, "name_of"),
    (_steps.Steps, "close"), (_steps.Steps, "mark"), (_steps.Steps, "call_begins"), (_steps.Steps, "zero_grad"),
    (_cuts.Cuts, "places"), (_steps.Steps, "_keep"), (_steps.Steps, "tick"), (_steps.Steps, "flush"),
    (_steps.Steps, "backward_done"), (_steps.Steps, "finish"), (_steps, "saved_bytes"),
    (_backward.BackwardWatch, "_begin"), (_backward.BackwardWatch, "_end"), (_backward.BackwardWatch, "_watch"),
    (_optimizers.Optimizers, "_event"), (_optimizers.Optimizers, "find"),
    (_optimizers.Optimizers, "_watch"), (_writer.Writer, "flush"), (_writer.Writer, "add_step"),
    (_writer.Writer, "finish"),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "name"), FAULTS, ids=[f"{owner.__name__}.{name}" for owner, name in FAULTS])
def test_a_fault_of_the_recorder_does_not_touch_the_program(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    before, expected = patched(), program()

    def fault(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("a fault on purpose")

    with monkeypatch.context() as patch:
        patch.setattr(_tape, "STRICT", False)
        if name in ("switch", "unknown"):  # the handler holds them directly
            patch.setattr(owner, name, fault)
        rec = plait.record()
        with rec:
            patch.setattr(owner, name, fault)
            if name == "find":
                rec.steps_keeper.find_optimizers = fault
            if name == "backward_done":
                rec.steps_keeper.watch.on_done = fault
            if name == "tick":
                rec.tape.on_deadline = fault
            if name == "close":
                rec.tape.on_armed = fault
            assert program() == expected
            rec.step()
    err = capsys.readouterr().err
    if err or name not in QUIET:
        assert err.startswith("plait: recording stopped at step ") and err.count("\n") == 1, err
        assert "(RuntimeError: a fault on purpose); the program goes on. Please report this." in err
    assert patched() == before


QUIET = {"name_of", "find", "tick", "entry"}  # this program need not come by


def test_a_fault_is_kept_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tape, "STRICT", False)
    x = torch.ones(2, requires_grad=True)
    with plait.record() as rec:
        (x * 2).sum().backward()
        rec.step()
        monkeypatch.setattr(_calls.CallStack, "site_of", None)
        program()
    assert rec.steps[0].loss == 4.0 and len(rec.steps) <= 2
    ((kind, text),) = rec.notes
    assert kind == "stopped" and text.startswith("recording stopped at step 1: plait failed (TypeError")


def test_strict_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the other tests want it."""
    before = patched()
    with pytest.raises(TypeError), plait.record():
        monkeypatch.setattr(_tape.Tape, "append_number", None)
        torch.ones(2) * 2
    monkeypatch.undo()
    assert patched()["call"] is before["call"]
