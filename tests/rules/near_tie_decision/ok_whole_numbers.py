# near-tie-decision: nothing to find
import torch

count = torch.tensor(1000000)
if count > 999999:
    count = count - 1
