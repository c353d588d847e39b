# loss-is-no-number: nothing to find
import torch

x = torch.ones(3, requires_grad=True)
(x * 2).backward(torch.ones(3))
