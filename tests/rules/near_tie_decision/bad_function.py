# near-tie-decision: expected at line 6
import torch


def above(scores, bar):
    return scores if scores.mean() >= bar else -scores


above(torch.tensor([0.1, 0.2]) + 1e-8, torch.tensor(0.15000001))
