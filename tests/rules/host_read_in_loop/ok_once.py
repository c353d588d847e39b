# host-read-in-loop: nothing to find
import torch

values = torch.stack([x.abs().sum() for x in torch.randn(20, 3)])
print(values.sum().item())
