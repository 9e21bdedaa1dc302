"""Chooses the prompts, their order and their worker, and the arrival times of an open loop."""

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

    `level` is the level number of a capacity search for which the request counts as evidence, or None.
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
    """A process's part of the prompts and counts: worker `index` of `count`."""

    index: int = 0
    count: int = 1

    def of(self, items: Sequence[Prompt]) -> list[Prompt]:
        """Every `count`-th item, starting at `index`, so that no prompt goes to two workers."""
        return list(items[self.index :: self.count])

    def share(self, total: int) -> int:
        """The worker's part of a count; the parts of all workers add up to the total."""
        return total // self.count + (self.index < total % self.count)


class Prompts:
    """The prompts of this process, separated into warm-up and measured ones."""

    def __init__(self, prompts: Sequence[Prompt], *, warmup: int, shard: Shard) -> None:
        """Split the pools; `load_prompts` ensures that there is a warm-up pool."""
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
        """Every measured prompt repeatedly; each pass is another sample."""
        for sample in itertools.count():
            for prompt in self.measured:
                yield prompt, sample


def arrivals(kind: str, rate: float, burstiness: float, seed: int) -> Iterator[float]:
    """Seconds from the start of each arrival, for ever.

    Args:
        kind: constant, poisson (exponential gaps) or gamma (gaps of shape `burstiness`).
        rate: mean arrivals per second.
        burstiness: gamma shape; 1 is Poisson, below 1 is burstier, above 1 more even.
        seed: seed of the gaps.
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
