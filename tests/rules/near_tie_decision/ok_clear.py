# near-tie-decision: nothing to find
import torch

x = torch.tensor([1.5])
if x[0] > 1.0:
    x = x * 2
