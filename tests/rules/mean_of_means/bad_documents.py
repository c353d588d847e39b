# mean-of-means: expected at line 12
import torch
import torch.nn.functional as F
from torch import nn

net = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30))
opt = torch.optim.Adam(net.parameters())


def lm_loss(tokens):
    logits = net(tokens[:-1])
    return F.cross_entropy(logits, tokens[1:])


def train(docs):
    opt.zero_grad()
    n = len(docs)
    for doc in docs:
        loss = lm_loss(doc)
        loss = loss / n
        loss.backward()
    opt.step()


for _ in range(3):
    train([torch.randint(0, 30, (k,)) for k in (4, 20, 9)])
