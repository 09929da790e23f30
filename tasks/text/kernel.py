"""One way to compile a loop over arrays to machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile a function with Numba on its first call; the machine code is cached beside the source.

    Give integers explicit widths inside: Numba promotes a mix of signed and unsigned ones to float64.
    """
    return cast(F, njit(cache=True, nogil=True)(function))
