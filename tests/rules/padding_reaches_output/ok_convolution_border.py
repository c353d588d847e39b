# padding-reaches-output: nothing to find
import torch
import torch.nn.functional as F
from torch import nn

image = torch.randn(2, 3, 8, 8)
conv = nn.Conv2d(3, 4, 3)
h = conv(F.pad(image, (1, 1, 1, 1)))
h.mean((2, 3)).sum().backward()
