"""A second, plain implementation that the stage is held against."""

from itertools import combinations

from tasks.text.words import words


def shingles(text: str, size: int = 5) -> set[str]:
    """Word shingles as strings; a shorter text is one shingle as a whole."""
    found = words(text)
    if not found:
        return set()
    return {" ".join(found[at : at + size]) for at in range(max(1, len(found) - size + 1))}


def jaccard(left: set[str], right: set[str]) -> float:
    """0 for two empty sets."""
    return len(left & right) / len(left | right) if left | right else 0.0


def all_pairs(texts: list[str]) -> dict[tuple[int, int], float]:
    """Exact similarity of every pair of texts."""
    sets = [shingles(text) for text in texts]
    return {(a, b): jaccard(sets[a], sets[b]) for a, b in combinations(range(len(texts)), 2)}
