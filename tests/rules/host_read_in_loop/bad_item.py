# host-read-in-loop: expected at line 6
import torch

total = 0.0
for x in torch.randn(20, 3):
    total += x.abs().sum().item()
