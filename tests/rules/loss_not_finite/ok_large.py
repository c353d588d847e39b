# loss-not-finite: nothing to find
import torch

w = torch.ones(20, requires_grad=True)
(w * 1e30).mean().backward()
