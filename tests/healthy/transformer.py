"""A small encoder with a padding mask, a schedule, and an evaluation without gradients."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(30, 16, padding_idx=0)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        empty = tokens == 0
        h = self.layers(self.table(tokens), src_key_padding_mask=empty)
        keep = (~empty).unsqueeze(-1).float()
        return self.out((h * keep).sum(1) / keep.sum(1))


def batch(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [torch.randint(1, 30, (int(k),)) for k in torch.randint(3, 9, (n,))]
    return pad_sequence(rows, batch_first=True), torch.tensor([int(row[0]) % 4 for row in rows])


model = Encoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))
for step in range(6):
    tokens, labels = batch(4)
    loss = F.cross_entropy(model(tokens), labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 3 == 2:
        model.eval()
        with torch.no_grad():
            tokens, labels = batch(6)
            accuracy = (model(tokens).argmax(1) == labels).float().mean().item()
        model.train()
