"""Random programs, batched against the plain loop: `python -m tests.batching.fuzz [programs] [seed]`."""

from __future__ import annotations

import random
import sys
import traceback
import warnings

import torch

from plait._testing_batch import BatchMismatch, check_batch
from plait.batching import BatchError
from tests.batching.programs import Gen, Parts, compile_program, examples


def one(seed: int | random.Random, parts: Parts, double: bool = False) -> str:
    """Runs one program; returns "ok", "skipped" (the loop itself fails) or "refused"; raises on a difference."""
    rnd = random.Random(seed) if isinstance(seed, int) else seed
    source = Gen(rnd).source()
    rows = examples(rnd)
    fn = compile_program(source, parts)
    try:
        for row in rows:
            fn(*row)
    except Exception:
        return "skipped"
    try:
        check_batch(fn, rows, double_backward=double)
    except RuntimeError as e:
        if "modified by an inplace operation" not in str(e):  # the loop itself has no gradient here
            e.add_note(source)
            raise
        return "skipped"
    except BatchError:
        return "refused"
    except Exception as e:
        e.add_note(source)
        raise
    return "ok"


def main(argv: list[str]) -> int:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    n = int(argv[0]) if argv else 5000
    first = int(argv[1]) if len(argv) > 1 else 0
    parts = Parts()
    counts: dict[str, int] = {}
    failed = 0
    for seed in range(first, first + n):
        try:
            res = one(seed, parts, seed % 5 == 0)
        except (Exception, BatchMismatch) as e:
            failed += 1
            res = "FAILED"
            print(f"seed {seed}: {type(e).__name__}: {e}", flush=True)
            if failed <= 8:
                traceback.print_exc(limit=-4)
        counts[res] = counts.get(res, 0) + 1
        if (seed - first + 1) % 500 == 0:
            print(f"{seed - first + 1} programs: {counts}", flush=True)
    print(counts)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
