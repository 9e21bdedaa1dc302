"""Which prompts are asked, in which order, by which worker; and at which times in an open loop."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from load.conversation import Place
from records import Phase
from workloads import Prompt


@dataclass(frozen=True, slots=True)
class Ticket:
    """The right to send one request, or to hold one conversation, whose turns get tickets with a `place` of it.

    `due_ns` is monotonic, and None in a closed loop (send at once).

    `level` is the number of the level of a capacity search that the request is evidence on, None for none.
    """

    prompt: Prompt
    sample: int
    phase: Phase
    due_ns: int | None = None
    level: int | None = None
    place: Place | None = None

    @property
    def is_last(self) -> bool:
        """Whether no further turn comes after it."""
        return self.place is None or self.place.is_last


@dataclass(frozen=True, slots=True)
class Shard:
    """Which part of the prompts and of the counts this process has: `index` of `count` workers."""

    index: int = 0
    count: int = 1

    def of(self, items: Sequence[Prompt]) -> list[Prompt]:
        """Every `count`-th item from `index` on: no prompt goes to two workers."""
        return list(items[self.index :: self.count])

    def share(self, total: int) -> int:
        """The part of a count that this worker has; the parts of all add up to the total."""
        return total // self.count + (self.index < total % self.count)


class Prompts:
    """The prompts of this process, warm-up and measured ones apart."""

    def __init__(self, prompts: Sequence[Prompt], *, warmup: int, shard: Shard) -> None:
        """Split the pools; `load_prompts` sees to it that there is one to warm up with."""
        warm = [prompt for prompt in prompts if prompt.pool == Phase.WARMUP]
        measured = [prompt for prompt in prompts if prompt.pool != Phase.WARMUP]
        self.measured = shard.of(measured)
        self._warm = itertools.cycle(shard.of(warm) or warm) if warmup else None
        self.total = len(measured)

    def warmup(self) -> Prompt:
        assert self._warm is not None
        return next(self._warm)

    def once(self, samples: int) -> Iterator[tuple[Prompt, int]]:
        """Every measured prompt, `samples` times in a row."""
        return ((prompt, sample) for prompt in self.measured for sample in range(samples))

    def forever(self) -> Iterator[tuple[Prompt, int]]:
        """Every measured prompt again and again; each time round is another sample."""
        for sample in itertools.count():
            for prompt in self.measured:
                yield prompt, sample


def arrivals(kind: str, rate: float, burstiness: float, seed: int) -> Iterator[float]:
    """Seconds from the start of each arrival, for ever.

    Args:
        kind: constant, poisson (exponential gaps) or gamma (gaps of shape `burstiness`).
        rate: mean arrivals a second.
        burstiness: gamma shape; 1 is Poisson, below 1 is burstier, above 1 more even.
        seed: of the gaps.
    """
    draw: dict[str, Callable[[random.Random], float]] = {
        "constant": lambda _: 1 / rate,
        "poisson": lambda rng: rng.expovariate(rate),
        "gamma": lambda rng: rng.gammavariate(burstiness, 1 / (rate * burstiness)),
    }
    rng = random.Random(seed)  # noqa: S311 - a schedule, no secret
    at = 0.0
    while True:
        yield at
        at += draw[kind](rng)
