"""What the workloads fix besides their weights; needs no torch, as the DyNet forms run without it."""

EPSILON, MOST, PONDER = 0.01, 30, 0.01  # W6: when an example halts, the most steps, the price of one


def choose(s: list[float], can_shift: bool, can_reduce: bool) -> int:
    """W5: the best action that is possible; 0 shifts, 1 and 2 join the two topmost."""
    if not can_reduce:
        return 0
    a = 1 if s[1] >= s[2] else 2
    return 0 if can_shift and s[0] > s[a] else a
