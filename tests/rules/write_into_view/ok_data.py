# write-into-view: nothing to find
import torch

x = torch.zeros(4, 2)
for row in x:
    row.add_(1)
