"""Numbers of generation beside BentoML's own numbers of HTTP, all under ``/metrics``."""

from __future__ import annotations

FIRST_TOKEN_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Counters of one worker. Made when the worker starts: before that, prometheus_client does not know that several
    processes share one ``/metrics``, and would count in vain."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Histogram

        self._tokens = Counter("headrace_tokens", "Tokens read (prompt) and written (completion)", ["kind"])
        self._first = Histogram(
            "headrace_first_token_seconds",
            "From the admission of a prompt to its first token, waiting included",
            buckets=FIRST_TOKEN_BUCKETS_S,
        )

    def prompt_tokens(self, count: int) -> None:
        self._tokens.labels(kind="prompt").inc(count)

    def completion_tokens(self, count: int) -> None:
        self._tokens.labels(kind="completion").inc(count)

    def first_token(self, seconds: float) -> None:
        self._first.observe(seconds)
