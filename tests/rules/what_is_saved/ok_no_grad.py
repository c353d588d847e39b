# what-is-saved: nothing to find
import torch

with torch.no_grad():
    x = torch.randn(64, 512)
    for _ in range(10):
        x = torch.exp(-x)
