"""An RNN that makes a decision at every step, and what batching does to it.

The network reads a word letter by letter and says whether it is a Python name or an English word.
After each letter it looks at its hidden state and picks one of two activations with a plain `if`.
One word at a time that is easy to write and to train, whatever the lengths.

Then sixteen words are run together: padded, padded and masked, and packed. With the same `if`,
the mean is taken over the whole batch, so a word's result depends on which others are beside it.
With a decision per row, masking and packing give what each word gives alone; padding without a
mask still does not, because the shorter words go on to read the padding. `plait.batch` needs none
of this: it runs the function for one word, plain `if` and all, on all words at once (`--batch`: how fast).

All words come with Python: its own names, and the prose of its language reference.
"""

import builtins
import keyword
import random
import re
import sys
from collections.abc import Callable
from pydoc_data.topics import topics

import _compare
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

import plait

HIDDEN = 32
STEPS = 3000
Step = Callable[[Tensor, Tensor], Tensor]


class DynamicRNN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(26, HIDDEN)
        self.cell = nn.RNNCell(HIDDEN, HIDDEN)
        self.head = nn.Linear(HIDDEN, 1)
        self.arms: list[str] = []  # what the last word's decisions were

    def read(self, word: str) -> Tensor:
        """letters x HIDDEN: a sequence as long as the word."""
        return self.letters(torch.tensor([ord(letter) - ord("a") for letter in word]))

    def forward(self, word: str) -> Tensor:
        """The last hidden state, for one word alone."""
        self.arms.clear()
        hidden = torch.zeros(1, HIDDEN)
        for letter in self.read(word):
            hidden = self.step(letter[None], hidden)
        return hidden

    def step(self, letter: Tensor, hidden: Tensor) -> Tensor:
        """One step with an ordinary `if`: one decision, however many rows there are."""
        hidden = self.cell(letter, hidden)
        if hidden.mean() > 0:
            self.arms.append("relu")
            hidden = torch.relu(hidden)
        else:
            self.arms.append("tanh")
            hidden = torch.tanh(hidden)
        return hidden

    def step_by_row(self, letter: Tensor, hidden: Tensor) -> Tensor:
        """The same step rewritten for batches: both arms are computed, each row keeps its own."""
        hidden = self.cell(letter, hidden)
        positive = hidden.mean(dim=1, keepdim=True) > 0
        return torch.where(positive, torch.relu(hidden), torch.tanh(hidden))


def run_padded(step: Step, sequences: list[Tensor], masked: bool) -> Tensor:
    """Make every sequence as long as the longest; masked rows stand still once their word is over."""
    lengths = torch.tensor([len(s) for s in sequences])
    hidden = torch.zeros(len(sequences), HIDDEN)
    for t, letters in enumerate(pad_sequence(sequences)):
        moved = step(letters, hidden)
        hidden = torch.where((t < lengths)[:, None], moved, hidden) if masked else moved
    return hidden


def run_packed(step: Step, sequences: list[Tensor]) -> Tensor:
    """Longest first, so that the rows still running are always the first n."""
    lengths = torch.tensor([len(s) for s in sequences])
    packed = pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=False)
    running = packed.batch_sizes.tolist()
    hidden = torch.zeros(len(sequences), HIDDEN)
    for n, letters in zip(running, packed.data.split(running)):
        hidden = torch.cat([step(letters, hidden[:n]), hidden[n:]])
    return hidden[packed.unsorted_indices]


def load_words() -> tuple[list[str], list[str]]:
    """English words and Python names, shuffled, no word in both."""
    found = [*keyword.kwlist, *sys.stdlib_module_names, *dir(builtins)]
    for thing in vars(builtins).values():
        if isinstance(thing, type):
            found += dir(thing)
    plain = [name.strip("_").lower() for name in found]
    python = {name for name in plain if re.fullmatch("[a-z]{3,14}", name)}
    prose = " ".join(topics.values())
    english = set(re.findall("(?<=[a-z,] )[a-z]{3,14}(?=[ ,.])", prose)) - python
    return (
        random.sample(sorted(english), len(english)),
        random.sample(sorted(python), len(python)),
    )


def train(model: DynamicRNN, words: tuple[list[str], list[str]]) -> None:
    """One word a step, so every step's graph is as long as its word."""
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    losses: list[float] = []
    for step in range(1, STEPS + 1):
        label = random.randrange(2)
        score = model.head(model(random.choice(words[label])))
        loss = nn.functional.binary_cross_entropy_with_logits(score, torch.full_like(score, float(label)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if step % 1000 == 0:
            print(f"  step {step}: mean loss {sum(losses[-1000:]) / 1000:.3f}")


def test(model: DynamicRNN, words: tuple[list[str], list[str]]) -> None:
    with torch.no_grad():
        scored = sorted((model.head(model(w)).item(), w, label) for label in (0, 1) for w in words[label])
    right = sum((score > 0) == bool(label) for score, _, label in scored)
    print(f"  {right} of {len(scored)} words it never saw are right (guessing: {len(scored) // 2})")
    print("  surest of English:", *(w if label == 0 else f"{w} (wrong)" for _, w, label in scored[:5]))
    print("  surest of Python: ", *(w if label == 1 else f"{w} (wrong)" for _, w, label in scored[:-6:-1]))


def compare(model: DynamicRNN, words: list[str]) -> None:
    """Run the words together in seven ways, each beside running every word alone."""

    def measure(hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = model.head(hidden)
        (gradient,) = torch.autograd.grad(scores.sum(), model.cell.weight_hh)
        return hidden.detach(), scores.detach() > 0, gradient

    alone, answers, gradient = measure(torch.cat([model(w) for w in words]))

    def row(name: str, together: Tensor) -> None:
        hidden, new_answers, new_gradient = measure(together)
        gap = (hidden - alone).abs().amax(dim=1)
        same = (gap < 1e-5).sum().item()
        changed = (new_answers != answers).sum().item()
        off = ((new_gradient - gradient).norm() / gradient.norm()).item()
        print(f"    {name:<16}{same:>5} of {len(words)}{gap.max().item():>13.2g}{changed:>17}{off:>14.0%}")

    sequences = [model.read(w) for w in words]
    print(f"{len(words)} words in one batch, {min(map(len, words))} to {max(map(len, words))} letters")
    print("                     as alone   largest gap  answers changed  gradient off")
    for title, step in (
        ("`if hidden.mean() > 0`, one decision for the whole batch", model.step),
        ("torch.where, a decision for each row", model.step_by_row),
    ):
        print(f"  {title}")
        row("padded", run_padded(step, sequences, masked=False))
        row("padded + masked", run_padded(step, sequences, masked=True))
        row("packed", run_packed(step, sequences))
    print("  plait.batch, the plain `if` for each word")
    row("not padded", plait.batch(model)(words).squeeze(1))
    print("  (as alone: to 1e-5 in the last hidden state; gradient: of the score, by the recurrent weights)")


def time_batched(model: DynamicRNN, words: tuple[list[str], list[str]]) -> None:
    """Training as above, but on all these words in one step: the loop over them beside plait.batch."""

    def loss(word: str, label: float) -> Tensor:
        score = model.head(model(word))
        return nn.functional.binary_cross_entropy_with_logits(score, torch.full_like(score, label))

    labels = [float(label) for label in (0, 1) for _ in words[label]]
    _compare.compare(loss, (words[0] + words[1], labels), model)


def main() -> None:
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # tensors this small are quicker on one thread

    model = DynamicRNN()
    print("Untrained, one word at a time:")
    for word in ("else", "import"):
        mean = model(word).mean().item()
        print(f"  {word:<7} {len(word)} steps: {' '.join(model.arms)}; the last hidden mean is {mean:+.3f}")

    english, python = load_words()
    seen, unseen = (english[100:], python[100:]), (english[:100], python[:100])
    print(f"Train on {len(seen[0])} English words and {len(seen[1])} Python names, one word a step:")
    train(model, seen)
    test(model, unseen)
    compare(model, english[:8] + python[:8])
    if "--batch" in sys.argv[1:]:
        print("64 words in one step:")
        time_batched(model, (english[:32], python[:32]))


if __name__ == "__main__":
    main()
