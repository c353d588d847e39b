"""A model that is copied while it is recorded: the copies are filled into an argument of the call."""

import copy

import torch
from torch import nn

import plait


def test_a_model_is_copied():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    with plait.record() as recording:
        other = copy.deepcopy(model)
        (model(torch.ones(4, 2)) - other(torch.ones(4, 2)).detach()).sum().backward()
    assert recording.notes == ()
    assert len(recording.graph.find("linear")) == 4
