"""Writes `web/test/*.json`: what Python sends for hand-made recordings, so that the page is tested on the real wire.

python tests/web/make_fixture.py           writes them
python tests/web/make_fixture.py --check   says whether they are current
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from handmade import Tape, loop, product  # noqa: E402
from plait.graph._rows import ParentRow  # noqa: E402
from plait.recording import load  # noqa: E402
from plait.views._page import Pages, document  # noqa: E402

FOLDER = ROOT / "web" / "test"

CUT = """\
w = torch.ones(3, requires_grad=True)
h = w * 2
k = h.detach()
loss = (k * w).sum()
loss.backward()
"""


def cut() -> Tape:
    """A path that is cut beside one that is not: h has no gradient, w has."""
    tape = Tape(CUT)
    leaf, made, bare = tape.type(3, grad=True), tape.type(3, grad=True, leaf=False), tape.type(3)
    scalar = tape.type(grad=True, leaf=False)
    w = tape.input("leaf", leaf, "w")
    h = tape.op("__mul__", w, out=made, site=tape.site(2, "w * 2", "<module>"),
                backward=(("MulBackward0", (ParentRow("leaf", *w, 0),)),))  # fmt: skip
    k = tape.op("detach", tape.to(h), out=bare, site=tape.site(3, "h.detach()", "<module>"), cut="detach", bases=(0,))
    product_ = tape.op("__mul__", tape.to(k), w, out=made, site=tape.site(4, "k * w", "<module>"),
                       backward=(("MulBackward0", (None, ParentRow("leaf", *w, 0))),))  # fmt: skip
    loss = tape.op("sum", tape.to(product_), out=scalar, site=tape.site(4, "(k * w).sum()", "<module>"),
                   backward=(("SumBackward0", (ParentRow("node", 1, 0, 0),)),))  # fmt: skip
    tape.backward(tape.to(loss), tape.site(5, "loss.backward()", "<module>"))
    tape.end_step(loss=1.0)
    return tape


def texts() -> dict[str, str]:
    """Every fixture by its name."""
    made = {"product": product(), "loop": loop([[True, False, True], [True], [True, True, True]]), "cut": cut()}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, tape in made.items():
            with load(tape.write(Path(folder) / f"{name}.plait")) as recording:
                pages = Pages(recording)
                whole = document(pages, sorted(pages.graphs()))
            whole["head"]["plait"] = "0"
            found[f"{name}.json"] = json.dumps(whole, ensure_ascii=False, indent=None, separators=(",", ":")) + "\n"
    return found


def main() -> int:
    """Write or check; the exit status."""
    stale = [name for name, text in texts().items()
             if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != text]  # fmt: skip
    if "--check" in sys.argv:
        if stale:
            print(f"not current: {', '.join(stale)}; run python tests/web/make_fixture.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
