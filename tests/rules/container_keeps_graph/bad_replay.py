# container-keeps-graph: expected at line 8
import torch

w, memory = torch.ones(3, requires_grad=True), []


def act(x):
    score = (w * x).sum().sigmoid()
    memory.append({"score": score, "input": x})
    return score


for _ in range(20):
    act(torch.randn(3)).backward()
