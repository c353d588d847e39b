# near-tie-decision: expected at line 6
import torch


def above(scores, bar):
    return scores if scores.mean() >= bar else -scores


above(torch.tensor([1.0, 1.0000005]), torch.tensor(1.0))
