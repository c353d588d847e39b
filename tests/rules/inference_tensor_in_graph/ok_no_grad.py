# inference-tensor-in-graph: nothing to find
import torch
from torch import nn

backbone, head = nn.Linear(3, 4), nn.Linear(4, 2)
with torch.no_grad():
    features = backbone(torch.ones(2, 3))
head(features).sum().backward()
