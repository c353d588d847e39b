"""How far will the S&P 500 swing tomorrow? An LSTM whose input hardly ever has the same size twice.

The data are real daily prices, 1999 to 2018, from the `arch` package. The target is tomorrow's
range, the distance between the day's low and high. The direction is close to a coin toss, but calm
and stormy days come in runs, so here there is something to learn.

Each training step draws its own batch size, window length and set of features, so nearly every
step builds a graph of a new size. The model is then tested on years it never saw, beside
forecasts that need no model at all. With `--batch` the windows of one step also differ in length,
in one call of plait.batch, beside the plain loop over them.
"""

import random
import sys

import torch
from _compare import compare
from torch import Tensor, nn

FEATURES = ["range", "return", "|return|", "volume change"]
FIRST_TEST_YEAR = 2013
STEPS = 400


class RangeLSTM(nn.Module):
    """Each feature has its own way in; those present are added up and go through one LSTM."""

    def __init__(self, hidden: int = 24) -> None:
        super().__init__()
        self.inputs = nn.ModuleDict({name: nn.Linear(1, hidden) for name in FEATURES})
        self.lstm = nn.LSTM(hidden, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, windows: Tensor, features: list[str]) -> Tensor:
        """windows: batch x days x features, or days x features alone; the range comes first in `features`."""
        # Decades differ in how calm they are, so the model sees, and says, only how far the range
        # is above or below the window's own average.
        level = windows[..., 0].mean(dim=-1)
        mixed = self.inputs["range"](windows[..., :1] - level[..., None, None])
        for i, name in enumerate(features[1:], start=1):
            mixed = mixed + self.inputs[name](windows[..., i : i + 1])
        outputs, _ = self.lstm(mixed)
        return level + self.head(outputs[..., -1, :]).squeeze(-1)


def load_days() -> tuple[Tensor, list[int]]:
    """One row of FEATURES per trading day, and the year of each row."""
    try:
        from arch.data import sp500
    except ImportError:
        sys.exit("stocks.py reads real prices from the arch package: pip install 'plait[examples]'")
    prices = sp500.load()
    columns = prices[["High", "Low", "Close", "Volume"]].to_numpy(dtype="float64")
    high, low, close, volume = torch.tensor(columns).log().unbind(1)
    log_range = (high - low).log()  # the log keeps the crash of 2008 from drowning the other years
    change = close.diff()
    days = torch.stack([log_range[1:], change, change.abs(), volume.diff()], dim=1)
    return days, [date.year for date in prices.index[1:]]


def windows_before(days: Tensor, targets: list[int], length: int, features: list[str]) -> Tensor:
    """For each target day, the `length` days that end on the day before it."""
    columns = [FEATURES.index(name) for name in features]
    return torch.stack([days[t - length : t, columns] for t in targets])


def train(model: RangeLSTM, days: Tensor) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses: list[float] = []
    sizes: set[torch.Size] = set()
    for step in range(1, STEPS + 1):
        length = random.randint(10, 40)
        features = ["range", *random.sample(FEATURES[1:], k=random.randint(0, 3))]
        targets = random.choices(range(length, len(days)), k=random.randint(8, 32))
        windows = windows_before(days, targets, length, features)

        loss = nn.functional.mse_loss(model(windows, features), days[targets, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        losses.append(loss.item())
        sizes.add(windows.shape)
        if step % 100 == 0:
            shape = " x ".join(str(n) for n in windows.shape)
            print(f"  step {step}: loss {sum(losses[-100:]) / 100:.3f}, this input was {shape}")
    print(f"  {STEPS} steps, {len(sizes)} different input sizes (windows x days x features)")


def any_length(model: RangeLSTM, days: Tensor) -> None:
    """Windows of different lengths and features in one call of plait.batch, and one by one."""
    windows, features, truths = [], [], []
    for _ in range(64):
        length = random.randint(10, 40)
        target = random.randrange(length, len(days))
        names = ["range", *random.sample(FEATURES[1:], k=random.randint(0, 3))]
        windows.append(windows_before(days, [target], length, names)[0])
        features.append(names)
        truths.append(days[target, 0])

    def miss(window: Tensor, names: list[str], truth: Tensor) -> Tensor:
        return (model(window, names) - truth).square()

    compare(miss, (windows, features, truths), model)


def main() -> None:
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tensors this small are quicker on one thread

    raw, years = load_days()
    split = years.index(FIRST_TEST_YEAR)
    mean, std = raw[:split].mean(dim=0), raw[:split].std(dim=0)  # of the training years alone
    days = ((raw - mean) / std).float()

    print(f"S&P 500, {len(days)} trading days. Training on {years[0]} to {years[split - 1]}:")
    model = RangeLSTM()
    train(model, days[:split])

    targets = list(range(split, len(days)))
    truth = days[targets, 0]

    def error(name: str, forecast: Tensor) -> float:
        miss = (forecast - truth) * std[0].item()  # back from standard units to log range
        rms = miss.square().mean().sqrt().item()
        print(f"  {name:<52}{rms:.3f}")
        return rms

    print(f"Forecasting {years[split]} to {years[-1]}, root mean square error of the log range:")
    naive = [
        error("same as today", days[split - 1 : -1, 0]),
        error("average of the training years", torch.zeros(len(truth))),  # where standard units have 0
        error("average of the last 5 days", windows_before(days, targets, 5, ["range"]).mean(dim=(1, 2))),
    ]
    learned = []
    for count in range(1, len(FEATURES) + 1):
        features = FEATURES[:count]
        with torch.no_grad():
            forecast = model(windows_before(days, targets, 20, features), features)
        learned.append(error("LSTM on " + " + ".join(features), forecast))

    gain = 1 - learned[-1] / min(naive)
    verdict = f"{gain:.0%} better than" if gain > 0 else "no better than"
    print(f"With all its features the LSTM is {verdict} the best naive forecast.")

    if "--batch" in sys.argv[1:]:
        print("Windows of 10 to 40 days and other features each, in one step:")
        any_length(model, days[:split])


if __name__ == "__main__":
    main()
