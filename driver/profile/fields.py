"""The kinds of values in a profile: strict, closed, finite."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from driver.run.pinning import parse_cores
from records import NAME


class Section(BaseModel):
    """A table of the profile: frozen, and a key that it does not know is a mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _to_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _some_cores(value: str) -> str:
    if not parse_cores(value):
        raise ValueError(f"{value!r} names no core; cores such as 0 or 0,2-3 were expected")
    return value


T = TypeVar("T")
Listed = Annotated[tuple[T, ...], BeforeValidator(_to_tuple)]
Name = Annotated[str, Field(pattern=rf"^{NAME.pattern}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Cores = Annotated[str, Field(pattern=r"^\d+(-\d+)?(,\d+(-\d+)?)*$"), AfterValidator(_some_cores)]
Positive = Annotated[int, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
# A whole number is one too: strict mode would refuse `temperature = 0`.
Number = Annotated[float, Field(strict=False)]
Seconds = Annotated[Number, Field(gt=0)]
