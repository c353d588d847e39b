# jagged-operation-refused: expected at line 8
import contextlib

import torch


def scores(q, k):
    return torch.matmul(q, k.transpose(1, 2))


x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
with contextlib.suppress(RuntimeError):
    scores(x, x)
