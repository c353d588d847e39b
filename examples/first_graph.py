"""The smallest graph worth looking at: multiply, sum, walk back.

While it runs, PyTorch writes down two operations: z = x * y and loss = z.sum(). backward() reads
them in reverse. The sum passes a 1 to every element of z; the product then passes each of its two
inputs the value of the other one. So x.grad ends up equal to y, and y.grad equal to x.
"""

import torch


def main() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)

    z = x * y
    loss = z.sum()
    loss.backward()

    print("x      =", x.tolist())
    print("y      =", y.tolist())
    print("z      =", z.tolist(), "  x * y")
    print("loss   =", loss.item(), "  z.sum()")
    print("x.grad =", x.grad.tolist(), "  the same numbers as y")
    print("y.grad =", y.grad.tolist(), "  the same numbers as x")


if __name__ == "__main__":
    main()
