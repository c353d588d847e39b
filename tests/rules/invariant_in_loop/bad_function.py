# invariant-in-loop: expected at line 6
import torch


def mix(a, b, state):
    return state + torch.einsum("ij,jk->ik", a, b)


a, b, state = torch.randn(50, 40), torch.randn(40, 50), torch.zeros(50, 50)
for _ in range(4):
    state = mix(a, b, state).relu()
