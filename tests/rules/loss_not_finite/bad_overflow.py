# loss-not-finite: expected at line 10
import torch


def objective(w, x):
    return (w * x).mean() + (x * 1e30).pow(2).mean()


w = torch.ones(20, requires_grad=True)
objective(w, torch.ones(20)).backward()
