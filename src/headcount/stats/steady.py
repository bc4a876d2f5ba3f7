"""Where a series has settled: the marginal standard error rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["steady_from"]


def steady_from(values: npt.NDArray[np.floating[Any]], gain: float = 1.0) -> int:
    """The index from which on the mean of the rest is known best: the least standard error (White 1997, MSER).

    At most half of the series is cut, since at its end the rule sees few values and little spread by chance. With
    ``gain`` below 1 something is cut only when that lowers the squared error to this share of the uncut one.

    >>> steady_from(np.array([9.0, 5.0, 1.1, 0.9, 1.0, 1.1, 0.9, 1.0]))
    2
    """
    n = len(values)
    if n < 4:
        return 0
    left = np.arange(n, 0, -1)
    centred = values - np.mean(values)  # so that the difference of the two sums below loses no digits
    means = np.cumsum(centred[::-1])[::-1] / left
    squares = np.cumsum(centred[::-1] ** 2)[::-1] / left
    errors = (np.maximum(squares - means**2, 0.0) / left)[: n // 2 + 1]
    best = int(np.argmin(errors))
    return best if errors[best] < gain * errors[0] else 0
