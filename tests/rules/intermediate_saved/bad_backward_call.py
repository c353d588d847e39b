# intermediate-saved: expected at line 10
import torch


class Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        e = x.exp()
        p = e / (1 + e)
        ctx.save_for_backward(p)
        return torch.log1p(e)

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


w = torch.zeros(2, requires_grad=True)
for _ in range(1):
    Soft.apply(w).sum().backward(create_graph=True)
w.grad = None
