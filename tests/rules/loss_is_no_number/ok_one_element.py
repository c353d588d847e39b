# loss-is-no-number: nothing to find
import torch

x = torch.ones(1, requires_grad=True)
(x * 2).backward()
