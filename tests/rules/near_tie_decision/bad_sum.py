# near-tie-decision: expected at line 5
import torch

x = torch.tensor([1.0 + 2e-7])
if x[0] > 1.0:
    x = x * 2
