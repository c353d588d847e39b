"""An ordinary `if` that decides which graph gets built.

y.item() takes a plain number out of the tensor, and Python chooses by it. PyTorch only ever sees
the arm that ran: the gradient is that arm's slope, and the other arm leaves no trace.
"""

import torch


def run(start: float) -> None:
    x = torch.tensor(start, requires_grad=True)
    y = x * 2
    z = y * 3 if y.item() > 1.5 else y * 4
    z.backward()

    arm = "y * 3" if y.item() > 1.5 else "y * 4"
    print(f"x = {x.item()}: y = {y.item()}, so z = {arm} = {z.item()} and x.grad = {x.grad.item()}")


def main() -> None:
    run(1.0)  # 2.0 is above 1.5: 2 * 3 = 6
    run(0.5)  # 1.0 is not:       2 * 4 = 8


if __name__ == "__main__":
    main()
