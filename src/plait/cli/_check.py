"""`plait check`: whether the rows of a batch depend on each other or on their padding."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plait import PlaitError, check
from plait.cli._parser import Parser

DESCRIPTION = (
    "Run a model again with each row alone, in another order and with other padding, and say what should not have"
    " changed but did. FUNCTION takes no arguments and returns (model, batch), (model, batch, lengths) or a dict with"
    " the arguments of plait.check. The exit status is 0 if nothing changed, 1 if something did, 2 if it could not run."
)
EXAMPLES = """\
  plait check train.py:example
  plait check train.py:example --rows 4 --json"""


def _parser() -> Parser:
    parser = Parser("plait check", DESCRIPTION, examples=EXAMPLES)
    parser.add_argument("target", metavar="SCRIPT:FUNCTION", help="where the model and a batch come from")
    parser.add_argument("--rows", type=int, default=8, metavar="N", help="how many rows are tried (default: 8)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    return parser


def main(words: Sequence[str]) -> int:
    """Check; the exit status."""
    options = _parser().parse_args(words)
    if options.rows < 1:
        raise PlaitError(f"check --rows {options.rows}: it must be at least 1")
    given = _called(*_load(options.target))
    given.setdefault("rows", options.rows)
    found = check(given.pop("model"), given.pop("examples"), **given)
    if options.json:
        document = {
            "format": "plait-check", "version": 1, "findings": [asdict(each) for each in found.findings],
            "experiments": [asdict(each) for each in found.experiments], "notes": list(found.notes),
        }  # fmt: skip
        print(json.dumps(document, indent=1))
    else:
        print(found)
    return 1 if found else 0


def _load(target: str) -> tuple[str, Any]:
    """(its name, the function)."""
    script, colon, name = target.rpartition(":")
    if not colon or not script or not name.isidentifier():
        raise PlaitError(f"check {target}: name a script and a function in it, as in train.py:example")
    path = Path(script)
    if not path.is_file():
        raise PlaitError(f"{script}: there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PlaitError(f"{script}: this is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PlaitError(f"{script}: it fails when it is loaded ({type(error).__name__}: {error})") from error
    function = getattr(module, name, None)
    if not callable(function):
        raise PlaitError(f"{script}: there is no function {name!r} in it")
    return target, function


def _called(target: str, function: Any) -> dict[str, Any]:
    try:
        given = function()
    except Exception as error:
        raise PlaitError(f"{target}: it fails ({type(error).__name__}: {error})") from error
    if isinstance(given, tuple) and len(given) in (2, 3) and callable(given[0]):
        return dict(zip(("model", "examples", "lengths"), given))
    if isinstance(given, dict) and callable(given.get("model")) and "examples" in given:
        unknown = sorted(set(given) - {"model", "examples", "lengths", "batch_dim", "rows", "seed"})
        if not unknown:
            return dict(given)
        raise PlaitError(f"{target}: plait.check takes no argument {unknown[0]!r}")
    raise PlaitError(
        f"{target}: it must return (model, batch), (model, batch, lengths) or a dict with model and examples"
    )
