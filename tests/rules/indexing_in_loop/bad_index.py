# indexing-in-loop: expected at line 7
import torch

x = torch.randn(40, 3, requires_grad=True)
total = 0
for t in range(40):
    total = total + x[t].sum()
total.backward()
