"""
One request with its retries, without network access: a generator that yields the next step and is sent its outcome.

    Send ──> answered ──> read ──> the result
      ^         │ refused, or no answer
      └─ Pause ─┘   while tries are left and a repetition is safe; else the error is raised

Both clients, the blocking and the async one, and both transports run these steps, each with its own kind of request.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from .errors import ConnectionFailedError, DeadlineExceededError, NotReadyError, OverloadedError, VicinalError

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retry:
    """
    How often and how soon a failed request is retried. Delays double from `first_delay_s` up to `max_delay_s`, less a
    random part. A `Retry-After` of the service makes them longer; one beyond `max_retry_after_s` ends the retries.
    """

    tries: int = 5
    first_delay_s: float = 0.1
    max_delay_s: float = 10.0
    max_retry_after_s: float = 60.0

    def delay(self, tried: int, error: VicinalError, *, is_safe: bool) -> float | None:
        """Return the seconds to wait before the next try, or None if there is none."""
        if tried >= self.tries or not is_passing(error, is_safe=is_safe):
            return None
        retry_after = error.retry_after or 0.0
        if retry_after > self.max_retry_after_s:
            return None
        longest = min(self.first_delay_s * 2.0 ** (tried - 1), self.max_delay_s)
        return max(retry_after, longest * random.uniform(0.5, 1))


NO_RETRY = Retry(tries=1)


@dataclass(frozen=True, slots=True)
class Send(Generic[Request]):
    """A step: send this. Its outcome is a response, or `Unanswered`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A failed try. `is_in_doubt`: the request may have been received, and may have taken effect."""

    error: VicinalError
    is_in_doubt: bool


Steps: TypeAlias = Generator[Send[Request] | Pause, Response | Unanswered | None, Result]


def exchange(
    request: Request,
    read: Callable[[Response], Result],
    *,
    repeatable: bool,
    retry: Retry,
) -> Steps[Request, Response, Result]:
    """
    Return the steps of a request.

    :param read: returns the result of a response, or raises its error
    """
    tried = 0
    while True:
        outcome = yield Send(request)
        tried += 1
        assert outcome is not None
        try:
            if isinstance(outcome, Unanswered):
                raise outcome.error
            return read(outcome)
        except VicinalError as error:
            is_safe = repeatable or (isinstance(outcome, Unanswered) and not outcome.is_in_doubt)
            delay = retry.delay(tried, error, is_safe=is_safe)
            if delay is None:
                raise
        yield Pause(delay)


def is_passing(error: VicinalError, *, is_safe: bool) -> bool:
    """Whether another try may succeed and is safe."""
    if isinstance(error, NotReadyError):
        return is_safe or not error.is_in_doubt
    if isinstance(error, OverloadedError):
        return True
    return is_safe and isinstance(error, (ConnectionFailedError, DeadlineExceededError))
