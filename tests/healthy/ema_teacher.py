"""Mean teacher: a copy that follows by exponential averages and is never trained."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

student = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
teacher = copy.deepcopy(student)
for parameter in teacher.parameters():
    parameter.requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(6):
    x, y = torch.randn(8, 4), torch.randint(3, (8,))
    with torch.no_grad():
        target = teacher(x + 0.1 * torch.randn_like(x)).softmax(1)
    out = student(x)
    loss = F.cross_entropy(out, y) + F.mse_loss(out.softmax(1), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(teacher.parameters(), student.parameters()):
            slow.mul_(0.99).add_(fast, alpha=0.01)
