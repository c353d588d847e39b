# gradient-of-copy: expected at line 8
import torch
from torch import nn


class Attack:
    def __init__(self, image):
        self.image = torch.tensor(image, requires_grad=True).view(1, 4)

    def run(self, model):
        for _ in range(2):
            model(self.image).sum().backward()
        return self.image.grad


Attack([1.0, 2.0, 3.0, 4.0]).run(nn.Linear(4, 1))
