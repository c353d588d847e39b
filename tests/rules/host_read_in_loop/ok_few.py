# host-read-in-loop: nothing to find
import torch

for x in torch.randn(4, 3):
    print(x.sum().item())
