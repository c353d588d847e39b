# grad-mode-leak: expected at line 6
import torch


def batches():
    with torch.no_grad():
        for i in range(3):
            yield torch.ones(2) * i


w = torch.ones(2, requires_grad=True)
for x in batches():
    (w * x).sum()
