"""PPO: old probabilities without gradients, clipped ratios, an early stop."""

import torch
from torch import nn
from torch.distributions import Categorical

pi = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
vf = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam([*pi.parameters(), *vf.parameters()], 3e-3)
for _ in range(2):
    obs = torch.randn(32, 3)
    with torch.no_grad():
        d = Categorical(logits=pi(obs))
        act = d.sample()
        old = d.log_prob(act)
        val = vf(obs).squeeze(-1)
    ret = torch.randn(32)
    adv = ret - val
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(3):
        for idx in torch.randperm(32).split(8):
            d = Categorical(logits=pi(obs[idx]))
            ratio = (d.log_prob(act[idx]) - old[idx]).exp()
            a = adv[idx]
            pl = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean()
            vl = (vf(obs[idx]).squeeze(-1) - ret[idx]).pow(2).mean()
            loss = pl + 0.5 * vl - 0.01 * d.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(pi.parameters(), 0.5)
            opt.step()
            if (ratio - 1).abs().mean() > 1.5:
                break
