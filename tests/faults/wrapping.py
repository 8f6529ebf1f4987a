"""Functions of the product, wrapped from outside so that a process notices when it comes there."""

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any


def _always(*_: object) -> bool:
    return True


def call_after(owner: type, name: str, reach: Callable[[], None], concerns: Callable[..., bool] = _always) -> None:
    """Have something called after each call of a method.

    Args:
        concerns: Whether a call counts, by what it returned and its arguments.
    """
    original = getattr(owner, name)

    @wraps(original)
    def called(*arguments: Any, **options: Any) -> Any:
        returned = original(*arguments, **options)
        if concerns(returned, *arguments):
            reach()
        return returned

    @wraps(original)
    async def awaited(*arguments: Any, **options: Any) -> Any:
        returned = await original(*arguments, **options)
        if concerns(returned, *arguments):
            reach()
        return returned

    setattr(owner, name, awaited if iscoroutinefunction(original) else called)


def call_before(owner: type, name: str, reach: Callable[[], None]) -> None:
    """Have something called before each call of a method."""
    original = getattr(owner, name)

    @wraps(original)
    def called(*arguments: Any, **options: Any) -> Any:
        reach()
        return original(*arguments, **options)

    setattr(owner, name, called)
