"""Notebooks: `%load_ext plait` shows recordings as pages and brings `%%plait`, which records a cell."""

from __future__ import annotations

from typing import Any

import plait

_SHOWN = (("plait.recording._reader", "Recording"), ("plait.recorder._recorder", "Record"))


def show_recordings(shell: Any = None) -> None:
    """A recording that is the last line of a cell shows its page; nothing happens outside of IPython."""
    from IPython import get_ipython

    shell = shell or get_ipython()
    if shell is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        for module, name in _SHOWN:
            formatter.for_type_by_name(module, name, _show)


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext plait` runs."""
    shell.register_magic_function(_magic(shell), "line_cell", "plait")
    show_recordings(shell)


def unload_ipython_extension(shell: Any) -> None:
    """What `%unload_ext plait` runs."""
    formatter = shell.display_formatter.formatters["text/html"]
    for module, name in _SHOWN:
        formatter.pop(f"{module}.{name}", None)


def _show(recording: Any) -> str:
    found: str = plait.view(recording)._repr_html_()
    return found


def _magic(shell: Any) -> Any:
    def record_cell(line: str, cell: str | None = None) -> Any:
        """`%%plait [NAME]` records the cell; the recording is bound to NAME (`rec` by default) and shown."""
        name = line.strip() if cell is not None else "rec"
        name = name or "rec"
        if cell is not None and not name.isidentifier():
            from IPython.core.error import UsageError  # shown as one line, without a traceback

            raise UsageError(f"%%plait {name}: give the name that the recording shall have, or nothing")
        code = line if cell is None else cell
        with plait.record() as recording:
            result = shell.run_cell(code, store_history=False)
        shell.user_ns[name] = recording
        if not result.success:
            return None  # the traceback stands in the output already
        return recording

    return record_cell
