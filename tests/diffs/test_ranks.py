"""Two ranks of one job, as torchrun starts them: each writes its own file, and where they part is named."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
import torch

from plait.diffs import diff_ranks

PROGRAM = """\
import sys
import time
import torch
import torch.distributed as dist
from torch import nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(2, 1), nn.Linear(2, 1)

    def forward(self, x):
        if x.sum() > 0:
            return self.one(x)
        return self.two(x)

dist.init_process_group("gloo")
torch.manual_seed(0)
model = Model()
for step in range(3):
    sign = -1.0 if step == 1 and dist.get_rank() == 1 else 1.0
    x = torch.full((3, 2), sign)
    model(x).sum().backward()
    if step == 1 and sys.argv[1] == "hang":
        if dist.get_rank() == 0:
            dist.barrier()
        time.sleep(100)
    model.zero_grad()
dist.destroy_process_group()
"""

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch is built without distributed")


def start(folder, how):
    script = folder / "train.py"
    script.write_text(PROGRAM)
    with socket.socket() as found:
        found.bind(("localhost", 0))
        port = found.getsockname()[1]
    ranks = []
    for rank in range(2):
        env = os.environ | {
            "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "MASTER_ADDR": "localhost",
            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        ranks.append(
            subprocess.Popen([sys.executable, "-m", "plait", "run", "-q", "train.py", how], cwd=folder, env=env)
        )
    return ranks, [str(folder / f"train.rank{rank}.plait") for rank in range(2)]


def test_the_decision_at_which_ranks_part(tmp_path):
    ranks, files = start(tmp_path, "finish")
    assert [rank.wait(120) for rank in ranks] == [0, 0]
    found = diff_ranks(files)
    text = str(found)
    assert found and found.divergence.kind == "decision", text
    assert found.divergence.label == "x.sum() > 0"
    assert [rank.half.outcome for rank in found.ranks] == [True, False]
    assert "train.py:13" in text and "rank 0 gives no gradient to" in text and "rank 1 gives no gradient to" in text
    assert "two.weight" in text and "one.weight" in text


def test_a_job_that_hung_and_was_killed(tmp_path):
    ranks, files = start(tmp_path, "hang")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not _parted(files):
        time.sleep(1)
    for rank in ranks:
        rank.send_signal(signal.SIGKILL)
        rank.wait(20)
    found = diff_ranks(files)
    assert found.divergence is not None and found.divergence.label == "x.sum() > 0", str(found)
    assert "killed, or still running" in str(found)
    assert str(found).count("last: ") == 2


def _parted(files):
    try:
        return all(os.path.exists(each) for each in files) and diff_ranks(files).divergence is not None
    except Exception:
        return False
