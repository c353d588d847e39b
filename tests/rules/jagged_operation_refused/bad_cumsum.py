# jagged-operation-refused: expected at line 8
import contextlib

import torch

x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
with contextlib.suppress(NotImplementedError, ValueError):
    x.cumsum(1)
