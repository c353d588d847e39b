# graph-grows-across-steps: nothing to find
import torch

w, smooth = torch.ones(3, requires_grad=True), torch.zeros(3)
for _ in range(5):
    with torch.no_grad():
        smooth = 0.5 * smooth + w
    ((w - smooth) ** 2).sum().backward()
