# near-tie-decision: nothing to find
import torch

x = torch.zeros(3)
if x.sum() > 0:
    x = x + 1
