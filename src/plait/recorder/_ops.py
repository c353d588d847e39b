"""The handler: what runs at every call through torch. The hot path of plait; see NOTE [Hot keys] in `_ledger.py`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import ref

import torch

from plait._torch import is_autocast_on, sequence_number
from plait.recorder._functions import VALUE_NUMBERS, kind_of_name, looks, plain_name
from plait.recorder._new_row import SHARED, UNRECORDED, after_special_row, new_row
from plait.recorder._sites import MODULE_CALL, QUIET, UNSEEN
from plait.recorder._tape import Tape

Handler = Callable[..., Any]
Special = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]

_END: Final = object()
LOOK: Final = object()


def make_handler(tape: Tape, specials: dict[Any, Special]) -> Handler:
    """The function that PyTorch calls instead of every function of torch.

    Everything it uses is a local of this function, because names of closures are the fastest that Python has.
    """
    # What to do with a function: LOOK, a special handler, or for all others the bits of `kind_of_name`.
    kinds: dict[Any, Any] = {**dict.fromkeys(looks(), LOOK), **specials}
    kind_of = kinds.get
    calls = tape.calls
    codes_of, switch, learn_site = tape.sites.codes.get, calls.switch, tape.sites.learn
    learn_code = tape.sites.learn_code
    ids, ids_of, unknown, changed = tape.ids, tape.ids.get, tape.unknown, tape.changed
    tokens, numbers, times = tape.tokens, tape.numbers, tape.times
    hot_of, scope_stack, call_sites = tape.hot.get, tape.scopes.stack, tape.scopes.call_sites
    Tensor, Parameter = torch.Tensor, torch.nn.Parameter
    frame_of, clock, grad_enabled = sys._getframe, time.perf_counter_ns, torch.is_grad_enabled
    inference_enabled, autocast_on = torch.is_inference_mode_enabled, is_autocast_on
    simple = frozenset({bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})

    def add_argument(key: list[Any], argument: Any, value_numbers: int) -> None:
        """Put an argument that is not simply a tensor or a number into the key."""
        kind = type(argument)
        if isinstance(argument, Tensor):
            entry = ids_of(id(argument))
            if entry is None or entry[0]() is not argument:
                entry = unknown(argument)
            elif tape.written and entry[3] is not None and entry[3] != argument._version:
                entry = changed(argument, entry)
            place = entry[1]
            key.append(len(tokens) - place if place >= 0 else place)
            key.append(entry[2])
            if kind is not Tensor and kind is not Parameter:
                key.append(kind)
        elif kind is int:
            key.append(int)
            if not value_numbers:
                key.append(argument)
        elif kind in simple:
            key.append(kind)
            key.append(argument)
        elif isinstance(argument, (list, tuple)):
            key.append(list)
            for item in argument:
                add_argument(key, item, value_numbers)
            key.append(_END)
        elif isinstance(argument, dict):
            key.append(dict)
            for name, item in argument.items():
                key.append(name if isinstance(name, str) else type(name))
                add_argument(key, item, value_numbers)
            key.append(_END)
        elif kind is slice:
            key.append(slice)
            for item in (argument.start, argument.stop, argument.step):
                if isinstance(item, Tensor):
                    add_argument(key, item, VALUE_NUMBERS)
                else:
                    key.append(type(item))
        else:
            key.append(kind)

    def handler(_mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kind = kind_of(func)
        if kind is LOOK:
            return func(*args, **kwargs) if kwargs else func(*args)
        frame: Any = frame_of(1)
        sites = codes_of(id(frame.f_code), UNSEEN)
        if sites is UNSEEN:
            sites = learn_code(frame.f_code)
        if sites is QUIET:
            tape.written = True
            return func(*args, **kwargs) if kwargs else func(*args)
        if type(kind) is not int:
            if kind is not None:
                return kind(func, args, kwargs or {}, frame)
            kind = kinds[func] = kind_of_name(plain_name(func))
        value_numbers = kind & VALUE_NUMBERS
        try:
            if tape.armed:
                tape.on_armed()
            # Where: the first frame that is the program's own.
            site = None
            passed = 0  # module calls on the way whose place is not known yet
            while True:
                if type(sites) is dict:
                    mark = frame.f_trace
                    if mark is None or mark is not calls.top:
                        switch(frame)
                    site = sites.get(frame.f_lasti)
                    if site is None:
                        site = learn_site(frame.f_code, frame.f_lasti)
                    if passed:
                        call_sites[-passed:] = [(site, calls.top, frame)] * passed
                    break
                if sites is MODULE_CALL:
                    called = call_sites[-1 - passed]
                    if called is not None:
                        site = called[0]
                        if called[1] is not calls.top:
                            switch(called[2])
                        if passed:
                            call_sites[-passed:] = [called] * passed
                        break
                    passed += 1
                frame = frame.f_back
                if frame is None:
                    break
                sites = codes_of(id(frame.f_code), UNSEEN)
                if sites is UNSEEN:
                    sites = learn_code(frame.f_code)
            grad = grad_enabled()
            if grad is not tape.grad or (not grad and inference_enabled() is not tape.inference):
                tape.mode_changed(grad, site)
            # What goes in. An input that is new writes a row of its own and moves the others: then count again.
            written = tape.written
            while True:
                here = len(tokens)
                key = [func, site, scope_stack[-1], grad + tape.circumstances]
                add = key.append
                for argument in args:
                    its = type(argument)
                    if its is Tensor or its is Parameter:
                        entry = ids_of(id(argument))
                        if entry is None or entry[0]() is not argument:
                            entry = unknown(argument)
                        elif written and entry[3] is not None and entry[3] != argument._version:
                            entry = changed(argument, entry)
                        place = entry[1]
                        add(here - place if place >= 0 else place)
                        add(entry[2])
                    elif its is int:
                        add(int)
                        if not value_numbers:
                            add(argument)
                    elif its in simple:
                        add(its)
                        add(argument)
                    elif its is float:
                        add(float)
                    else:
                        add_argument(key, argument, value_numbers)
                if kwargs:
                    for name, argument in kwargs.items():
                        add(name)
                        add_argument(key, argument, value_numbers)
                if len(tokens) == here:
                    break
        except Exception as error:
            tape.broken(error)
            return func(*args, **kwargs) if kwargs else func(*args)
        before = sequence_number()
        start = clock()
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            tape.failed(func, error, site, args, kwargs)
            raise
        end = clock()
        try:
            add(sequence_number() - before)
            # What comes out.
            its = type(result)
            if kind > 1 and its is Tensor:  # PREDICTABLE
                add(autocast_on())
            elif its is Tensor or its is Parameter:
                add(result.shape)
                add(result.dtype)
                add(result.requires_grad)
            elif isinstance(result, (Tensor, tuple, list)):
                _add_results(key, result)
            else:
                add(its)
            known = hot_of(tuple(key))
            if known is None:
                known = new_row(tape, tuple(key), func, args, kwargs or {}, result, site, grad, before)
            flags = known[3]
            if flags & UNRECORDED:
                return result
            known[1] += end - start
            known[2] += 1
            tokens.append(known[0])
            numbers.append(before)
            times.append(end - start)
            if flags:
                after_special_row(tape, known, here, func, args, kwargs, result)
            else:
                version = known[5]
                if version < 0:
                    version = result._version if version == SHARED else None
                ids[id(result)] = (ref(result), here, known[4], version)
            if end > tape.deadline:
                tape.tick(end, here, result)
        except Exception as error:
            tape.broken(error)
        return result

    return handler


def _add_results(key: list[Any], result: Any) -> None:
    if isinstance(result, torch.Tensor):
        key += (result.shape, result.dtype, result.requires_grad, type(result))
    elif isinstance(result, (list, tuple)):
        key.append(type(result))
        for item in result:
            _add_results(key, item)
        key.append(_END)
    else:
        key.append(type(result))
