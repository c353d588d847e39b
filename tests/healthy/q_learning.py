"""Q-learning with a target network: its values are targets, it is copied now and then and never trained."""

import torch
import torch.nn.functional as F
from torch import nn

online = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
target = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-3)
for step in range(8):
    state, after = torch.randn(12, 3), torch.randn(12, 3)
    action, reward, done = torch.randint(4, (12,)), torch.randn(12), torch.rand(12) < 0.1
    best = target(after).max(1)[0].detach()
    goal = reward + 0.99 * best * (~done)
    loss = F.smooth_l1_loss(online(state).gather(1, action[:, None]).squeeze(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        target.load_state_dict(online.state_dict())
