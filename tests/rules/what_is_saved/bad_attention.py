# what-is-saved: expected at line 5
import torch

q = torch.randn(4, 256, 8, requires_grad=True)
weights = (q @ q.transpose(1, 2)).softmax(-1)
(weights @ q).sum().backward()
