# jagged-operation-refused: nothing to find
import torch
from torch import nn

x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
nn.Linear(3, 2)(x).relu()
