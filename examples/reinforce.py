"""REINFORCE on CartPole: episodes of different length, evaluated again in one batch; it learns to balance.

`episode_loss` is written for ONE episode.  The loop beside it gives the same loss and gradients, slower.
"""

from __future__ import annotations

import gymnasium
import torch
from _compare import compare, threads
from torch import Tensor, nn

import plait

DISCOUNT, EPISODES = 0.99, 10


def play(env: gymnasium.Env, policy: nn.Module, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """One episode: what was seen, what was done, and the discounted rewards that followed."""
    state, _ = env.reset(seed=seed)
    seen, done, rewards = [], [], []
    over = False
    while not over:
        seen.append(torch.as_tensor(state))
        with torch.no_grad():
            action = int(torch.multinomial(torch.softmax(policy(seen[-1]), 0), 1))
        state, reward, ended, cut, _ = env.step(action)
        done.append(action)
        rewards.append(float(reward))
        over = ended or cut
    total, returns = 0.0, []
    for r in reversed(rewards):
        total = r + DISCOUNT * total
        returns.append(total)
    return torch.stack(seen), torch.tensor(done), torch.tensor(returns[::-1])


def main() -> None:
    threads()
    env = gymnasium.make("CartPole-v1")
    policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))

    def episode_loss(seen: Tensor, done: Tensor, weight: Tensor) -> Tensor:
        logp = torch.log_softmax(policy(seen), -1)
        return -(logp.gather(1, done[:, None])[:, 0] * weight).sum()

    batched = plait.batch(episode_loss)
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    lengths: list[float] = []
    for step in range(40):
        episodes = [play(env, policy, 1000 * step + k) for k in range(EPISODES)]
        seen, done, returns = (list(c) for c in zip(*episodes))
        flat = torch.cat(returns)
        weights = [(r - flat.mean()) / (flat.std() + 1e-6) for r in returns]
        if step == 0:
            compare(episode_loss, (seen, done, weights), policy)
        optimizer.zero_grad()
        (batched(seen, done, weights).sum() / EPISODES).backward()
        optimizer.step()
        lengths.append(sum(map(len, seen)) / EPISODES)
        if step % 5 == 4:
            print(f"step {step + 1}: episodes last {lengths[-1]:.0f} steps")
        if lengths[-1] > 300:
            break
    print(f"from {lengths[0]:.0f} steps to {max(lengths):.0f} (500 is the most)")
    assert max(lengths) > 4 * lengths[0], "it did not learn to balance"


if __name__ == "__main__":
    main()
