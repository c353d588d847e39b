"""Takes the pictures of README and docs: runs the examples, writes their pages, opens them in Chromium.

python tools/screenshots.py                     all of them, into docs/images
python tools/screenshots.py --recordings DIR    with recordings that are there already (NAME.plait)
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from web.browser import chromium, missing, open_page  # noqa: E402


class Shot(NamedTuple):
    """One picture: an example, the state of its page, and how large the window is."""

    name: str
    example: str
    state: str
    width: int = 1280
    height: int = 800
    dark: bool = False
    script: str = ""


_DECISION = "document.querySelector('.box.decision').dispatchEvent(new MouseEvent('click', { bubbles: true }))"
SHOTS = [
    Shot("first-graph", "first_graph", "#view=graph", 1000, 560),
    Shot("branch", "branch", "#view=graph&step=1", 1100, 700),
    Shot("rnn-graph", "dynamic_rnn", "#view=graph&step=900", 1280, 1060, script=_DECISION),
    Shot("rnn-run", "dynamic_rnn", "#view=run&step=900", 1280, 900),
    Shot("rnn-source", "dynamic_rnn", "#view=source", 1280, 560),
    Shot("rnn-diff", "dynamic_rnn", "#view=diff&step=900", 1280, 700),
    Shot("stocks-graph-dark", "stocks", "#view=graph&step=300&overlay=saved", 1280, 1380, True),
    Shot("tagger-batch", "tagger", "#view=batch", 1280, 1000),
]


def record(example: str, folder: Path) -> Path:
    """The page of an example."""
    recording = folder / f"{example}.plait"
    if not recording.exists():
        plait("run", "-q", "-f", "-o", str(recording), f"examples/{example}.py")
    target = folder / f"{example}.html"
    plait("view", str(recording), "-f", "-o", str(target))
    return target


def plait(*words: str) -> None:
    """Run a command of plait from the root of the repository."""
    subprocess.run([sys.executable, "-m", "plait", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL,
                   env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})  # fmt: skip


def main() -> int:
    """Take them; the exit status."""
    parser = argparse.ArgumentParser(description="Takes the pictures of README and docs.")
    parser.add_argument("--recordings", type=Path, help="a folder with NAME.plait of the examples")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    options = parser.parse_args()
    if (reason := missing()) is not None:
        print(reason, file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = options.recordings or Path(name)
        pages = {example: record(example, folder) for example in dict.fromkeys(shot.example for shot in SHOTS)}
        for shot in SHOTS:
            with chromium(shot.width, shot.height, shot.dark) as context:
                tab = open_page(context, pages[shot.example], shot.state)
                tab.wait_for_timeout(400)
                if shot.script:
                    tab.evaluate(shot.script)
                    tab.wait_for_timeout(400)
                tab.screenshot(path=options.out / f"{shot.name}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
