"""Turns an operation into a method of a client."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def documented(method: Method, operation: Callable[..., Any]) -> Method:
    """Give a method the docstring and, for `help` and editors, the signature of its operation."""
    signature = inspect.signature(operation)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    parameters = [own, *list(signature.parameters.values())[1:]]
    answer = inspect.signature(operation.answer).return_annotation  # type: ignore[attr-defined]
    method.__doc__ = operation.__doc__
    method.__name__ = operation.__name__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=parameters, return_annotation=answer
    )
    return method
