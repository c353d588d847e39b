# parameter-without-gradient: expected at line 11
import torch
import torch.nn.functional as F
from torch import nn

encoder, decoder = nn.Linear(3, 2), nn.Linear(2, 3)
opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])


def code(x):
    return encoder(x).data


for _ in range(2):
    opt.zero_grad()
    F.mse_loss(decoder(code(torch.ones(4, 3))), torch.ones(4, 3)).backward()
    opt.step()
