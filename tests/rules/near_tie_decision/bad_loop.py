# near-tie-decision: expected at line 5
import torch

total, n = torch.zeros(()), 0
while total < 1.0:
    total = total + 0.1
    n += 1
