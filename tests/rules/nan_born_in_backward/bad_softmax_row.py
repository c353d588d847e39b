# nan-born-in-backward: expected at line 6
import torch


def attend(scores, mask):
    return scores.masked_fill(mask, float("-inf")).softmax(-1)


scores = torch.zeros(2, 3, requires_grad=True)
attend(scores, torch.tensor([[False, False, True], [True, True, True]]))[0].pow(2).sum().backward()
