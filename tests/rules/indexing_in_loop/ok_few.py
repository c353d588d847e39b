# indexing-in-loop: nothing to find
import torch

x = torch.randn(8, 3, requires_grad=True)
sum(x[t].sum() for t in range(8)).backward()
