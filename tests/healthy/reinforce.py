"""REINFORCE with a baseline on a walk along a line: episodes of different length, actions that decide."""

import torch
from torch import nn
from torch.distributions import Categorical

policy, value = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)), nn.Linear(2, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-2)


def episode() -> tuple[torch.Tensor, torch.Tensor, list[float]]:
    place, log_probs, values, rewards = 0, [], [], []
    for t in range(12):
        state = torch.tensor([place / 3, t / 12])
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        values.append(value(state).squeeze())
        place += 1 if action.item() == 1 else -1
        rewards.append(1.0 if place > 0 else -0.1)
        if abs(place) >= 3:
            break
    return torch.stack(log_probs), torch.stack(values), rewards


for _ in range(6):
    log_probs, values, rewards = episode()
    returns, total = [], 0.0
    for reward in reversed(rewards):
        total = reward + 0.9 * total
        returns.insert(0, total)
    goal = torch.tensor(returns)
    advantage = goal - values.detach()
    loss = -(log_probs * advantage).mean() + 0.5 * (values - goal).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
