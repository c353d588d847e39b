# jagged-operation-refused: nothing to find
import torch

x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
[each.cumsum(0) for each in x.unbind()]
