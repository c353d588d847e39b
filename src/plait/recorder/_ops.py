"""The handler: what runs at every call through torch. The one hot path of plait; see NOTE [Hot keys] in `_tape.py`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final
from weakref import ref

import torch

from plait._torch import sequence_number
from plait.recorder._functions import looks, numbers_are_values, plain_name
from plait.recorder._new_row import SHARED, UNRECORDED, after_special_row, new_row
from plait.recorder._sites import QUIET, UNSEEN
from plait.recorder._tape import Tape

Handler = Callable[..., Any]
Special = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]

_END: Final = object()


def make_handler(tape: Tape, specials: dict[Any, Special]) -> Handler:
    """The function that PyTorch calls instead of every function of torch.

    Everything it uses is a local of this function, because names of closures are the fastest that Python has.
    """
    look_set = looks()
    special_of = specials.get
    value_numbers: dict[Any, bool] = {}
    value_numbers_of = value_numbers.get
    codes_of, switch, learn_site = tape.sites.codes.get, tape.switch, tape.sites.learn
    learn_code = tape.sites.learn_code
    ids, ids_of, unknown, changed = tape.ids, tape.ids.get, tape.unknown, tape.changed
    tokens, numbers, times = tape.tokens, tape.numbers, tape.times
    hot_of, scope_stack = tape.hot.get, tape.scopes.stack
    Tensor, Parameter = torch.Tensor, torch.nn.Parameter
    frame_of, clock, grad_enabled = sys._getframe, time.perf_counter_ns, torch.is_grad_enabled
    inference_enabled = torch.is_inference_mode_enabled
    simple = frozenset({bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})

    def add_argument(key: list[Any], argument: Any, is_value: bool) -> None:
        """Put an argument that is not simply a tensor or a number into the key."""
        kind = type(argument)
        if isinstance(argument, Tensor):
            entry = ids_of(id(argument))
            if entry is None or entry[0]() is not argument:
                entry = unknown(argument)
            elif entry[3] is not None and entry[3] != argument._version:
                entry = changed(argument, entry)
            place = entry[1]
            key.append(len(tokens) - place if place >= 0 else place)
            key.append(entry[2])
        elif kind is int:
            key.append(int)
            if not is_value:
                key.append(argument)
        elif kind in simple:
            key.append(kind)
            key.append(argument)
        elif isinstance(argument, (list, tuple)):
            key.append(list)
            for item in argument:
                add_argument(key, item, is_value)
            key.append(_END)
        elif isinstance(argument, dict):
            key.append(dict)
            for name, item in argument.items():
                key.append(name if isinstance(name, str) else type(name))
                add_argument(key, item, is_value)
            key.append(_END)
        elif kind is slice:
            key.append(slice)
            for item in (argument.start, argument.stop, argument.step):
                if isinstance(item, Tensor):
                    add_argument(key, item, True)
                else:
                    key.append(type(item))
        else:
            key.append(kind)

    def handler(_mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in look_set:
            return func(*args, **kwargs) if kwargs else func(*args)
        frame = frame_of(1)
        sites = codes_of(id(frame.f_code), UNSEEN)
        if sites is UNSEEN:
            sites = learn_code(frame.f_code)
        if sites is QUIET:
            return func(*args, **kwargs) if kwargs else func(*args)
        special = special_of(func)
        if special is not None:
            return special(func, args, kwargs or {}, frame)
        # Where: the first frame that is the program's own.
        if tape.armed:
            tape.on_armed()
        site = None
        while True:
            if type(sites) is dict:
                mark = frame.f_trace
                if mark is None or mark is not tape.top:
                    switch(frame)
                site = sites.get(frame.f_lasti)
                if site is None:
                    site = learn_site(frame.f_code, frame.f_lasti)
                break
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
        is_value = value_numbers_of(func)
        if is_value is None:
            is_value = value_numbers[func] = numbers_are_values(plain_name(func))
        while True:
            here = len(tokens)
            key = [func, site, scope_stack[-1], grad + tape.circumstances]
            add = key.append
            for argument in args:
                kind = type(argument)
                if kind is Tensor or kind is Parameter:
                    entry = ids_of(id(argument))
                    if entry is None or entry[0]() is not argument:
                        entry = unknown(argument)
                    else:
                        version = entry[3]
                        if version is not None and version != argument._version:
                            entry = changed(argument, entry)
                    place = entry[1]
                    add(here - place if place >= 0 else place)
                    add(entry[2])
                elif kind is int:
                    add(int)
                    if not is_value:
                        add(argument)
                elif kind in simple:
                    add(kind)
                    add(argument)
                elif kind is float:
                    add(float)
                else:
                    add_argument(key, argument, is_value)
            if kwargs:
                for name, argument in kwargs.items():
                    add(name)
                    add_argument(key, argument, is_value)
            if len(tokens) == here:
                break
        before = sequence_number()
        start = clock()
        try:
            result = func(*args, **kwargs) if kwargs else func(*args)
        except BaseException as error:
            tape.failed(func, error, site, args, kwargs)
            raise
        end = clock()
        after = sequence_number()
        add(after - before)
        # What comes out.
        kind = type(result)
        if kind is Tensor or kind is Parameter:
            add(result.shape)
            add(result.dtype)
            add(result.requires_grad)
        elif kind is tuple or kind is list or isinstance(result, (Tensor, tuple, list)):
            _add_results(key, result)
        else:
            add(kind)
        known = hot_of(tuple(key))
        if known is None:
            known = new_row(tape, tuple(key), func, args, kwargs or {}, result, site, grad, before, after)
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
        if tape.sampling:
            tape.sample(here, result)
        if end > tape.deadline:
            tape.tick(end)
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
