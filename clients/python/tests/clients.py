"""The async client behind the interface of the blocking one, so that one suite tests both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, cast

from vicinal import AsyncVicinal, Vicinal


class Waiting:
    """Wraps an async object: its methods wait for their results."""

    def __init__(self, target: Any, runner: asyncio.Runner) -> None:
        self._target = target
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        return self._waiting(attribute) if callable(attribute) else self._wrapped(attribute)

    def _waiting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*args, **kwargs)
            if inspect.isasyncgen(result):
                return self._steps(result)
            return self._wait(result) if inspect.isawaitable(result) else self._wrapped(result)

        return call

    def _steps(self, generator: Any) -> Any:
        try:
            while True:
                try:
                    yield self._wait(anext(generator))
                except StopAsyncIteration:
                    return
        finally:
            self._wait(generator.aclose())

    def _wait(self, awaitable: Awaitable[Any]) -> Any:
        async def wait() -> Any:
            return await awaitable

        return self._runner.run(wait())

    def _wrapped(self, value: Any) -> Any:
        return Waiting(value, self._runner) if type(value).__module__.startswith("vicinal") else value


def waiting(client: AsyncVicinal, runner: asyncio.Runner) -> Vicinal:
    return cast(Vicinal, Waiting(client, runner))
