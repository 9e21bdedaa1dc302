"""Prompts for speed: natural text of about 32, 256 or 1,024 tokens that a model goes on from at length.

An engine's prefix cache must find nothing: no two prompts begin with the same two words (the first few hundred differ
in the first word already), and the warm-up pool opens with words that the measured pool never opens with.
"""

from __future__ import annotations

import random
import re
from functools import lru_cache

TOKENS = {"perf-short": 32, "perf-medium": 256, "perf-long": 1024}
"""Tokens of the message itself; an engine's chat template adds its own (SmolLM2's some 25)."""

MEASURED, WARMUP = 1024, 128
"""How many prompts a pool holds unless another number is asked."""

_OPENER_WORDS = """
Acorns Almonds Anchors Antiques Apples Apricots Archers Arrows Artists Authors Bakers Ballads Balloons Bananas Bankers
Baskets Beaches Beacons Bears Bees Beetles Bells Benches Berries Bicycles Birds Biscuits Blankets Boats Books Boots
Bottles Bowls Branches Brass Bread Bricks Bridges Brooms Brothers Buckets Builders Butchers Butter Buttons Cabins Cables
Cakes Cameras Canals Candles Canyons Captains Cards Carpets Carts Castles Cats Caves Chairs Chalk Charts Cheese Cherries
Chess Children Choirs Circles Circus Clay Cliffs Clocks Clouds Coaches Coal Coats Coffee Coins Comets Cooks Copper Coral
Corn Cotton Cousins Cows Cranes Crowds Crystals Cups Curtains Dancers Deer Deserts Diamonds Diaries Doctors Dogs Dolls
Dolphins Donkeys Doors Dragons Drawings Dreams Drivers Drums Ducks Dust Eagles Eggs Elephants Engines Falcons Families
Farmers Fathers Feathers Fences Ferries Festivals Fields Figs Fires Fish Flags Flowers Flutes Forests Fountains Foxes
Friends Frogs Fruit Games Gardens Garlic Gates Geese Ghosts Giants Glass Gloves Goats Gold Grapes Grass Guests Guides
Guitars Hammers Harbours Harvests Hats Hawks Herbs Hills Honey Horses Hotels Houses Hunters Ice Insects Iron Islands
Jackets Jars Jewels Journals Judges Juice Keys Kings Kitchens Kites Knights Lakes Lamps Lanterns Leather Lemons
Lessons Letters Libraries Lightning Lions Lizards Locks Lovers Machines Magic Mails Maps Marble Markets Masks Meadows
"""
_WARMUP_OPENER_WORDS = """
Medals Melodies Melons Merchants Metal Milk Mills Miners Mirrors Money Monkeys Moonlight Mothers Mountains Mules Museums
Music Neighbours Nests Nets Nights Novels Nurses Oceans Olives Onions Oranges Orchards Owls Painters Palaces Paper Parks
Parrots Peaches Pearls Pens Pepper Piano Pictures Pigeons Pilots Pines Pirates Planets Plants Poems Poets Ponds Ponies
Potatoes Pottery Printers Prisons Puppets Queens Rabbits Radios Railways Rain Rice Rings Rivers Roads Robots Roses
Sailors Salt Sand Schools Scissors Seeds Shadows Sheep Shells Ships Shoes Silk Silver Singers Sisters Smoke Snow Soap
Soldiers Songs Soup Spices Spiders Stars Steam Stones Storms Stoves Students Sugar Swans Tables Tailors Tea Teachers
"""
_SECOND_WORDS = "often rarely always never seldom sometimes usually once still again now perhaps mostly truly"
_FIRST_SENTENCES = (
    "{verb} the {noun} of our {adjective} {place}",
    "{verb} more to the {place} than a {adjective} {noun}",
    "{verb} every {noun} near the {adjective} {place}",
)
_SENTENCES = (
    "The {adjective} {noun} by the {place} {verb} the {person}, and nobody in the {place2} knew why.",
    "Every {time} the {person} walked past the {adjective} {place} with a {noun} under one arm.",
    "It was the {person} who first {verb} the {noun}, long before the {place} was {adjective}.",
    "When the {person} came back from the {place}, the {noun} had become {adjective} and quiet.",
    "In the {place2} people still talk about the {adjective} {time} when the {noun} was lost.",
    "A letter from the {person} said that the {noun} {verb} the whole {place} without a word.",
    "Some say the {place} is too {adjective} for a {noun}, but the {person} never listened.",
    "Behind the {place} there was a {adjective} yard where the {person} kept an old {noun}.",
    "That {time} the wind changed, and the {noun} in the {place} {verb} a {adjective} {person}.",
    "Nobody asked the {person} about the {noun}, because the {place} was already {adjective}.",
    "On the road to the {place} the {person} met a {adjective} stranger who carried a {noun}.",
    "The {person} wrote it all down: the {noun}, the {place}, and one {adjective} {time}.",
)
_WORDS = {
    slot: words.split()
    for slot, words in {
        "adjective": "quiet golden narrow ancient bright distant hidden gentle heavy strange warm broken empty",
        "noun": "lamp clock mirror ladder violin map kettle basket coin painting wheel bell compass blanket camera",
        "place": "harbour market library station village valley bakery theatre garden museum mill bridge school",
        "place2": "town city county province island district mountains lowlands",
        "person": "teacher captain farmer painter doctor baker child traveller gardener sailor widow clerk judge",
        "verb": "remembered followed changed surprised protected disturbed welcomed puzzled taught saved",
        "time": "morning evening winter summer spring autumn night Sunday week year",
    }.items()
}
_ASKS = {
    "perf-short": "Write a long and detailed story about this, in at least two thousand words, with many people in it.",
    "perf-medium": "Continue this story at length, in at least two thousand words, and describe every person in it.",
    "perf-long": "Continue this story at length, in at least two thousand words, and describe every person in it.",
}


def perf_texts(workload: str, pool: str, seed: int, count: int) -> list[str]:
    """The texts of one pool ("measure" or "warmup") of `perf-short`, `perf-medium` or `perf-long`.

    Raises:
        ValueError: more prompts are asked than there are pairs of opening words.
    """
    # Two generators, so that the first n texts are the same however many are asked.
    r, order = (random.Random(f"{workload}/{pool}/{seed}/{use}") for use in ("text", "order"))  # noqa: S311 (seeded)
    openings = _openings(order, (_WARMUP_OPENER_WORDS if pool == "warmup" else _OPENER_WORDS).split(), count)
    # Drawn from a stock, since a thousand long prompts must be ready within the load process's second.
    stock = [_filled(r, _SENTENCES[i % len(_SENTENCES)]) for i in range(2000)]
    return [_text(r, workload, opening, stock) for opening in openings]


def _openings(r: random.Random, first_words: list[str], count: int) -> list[str]:
    """Two opening words for each prompt, no pair twice; no first word twice before all have been used."""
    seconds = {first: _shuffled(r, _SECOND_WORDS.split()) for first in first_words}
    most = sum(map(len, seconds.values()))
    if count > most:
        raise ValueError(f"at most {most} prompts can open differently, but {count} are asked")
    openings: list[str] = []
    while len(openings) < count:
        openings += [f"{first} {seconds[first].pop()}" for first in _shuffled(r, first_words)]
    return openings[:count]


def _text(r: random.Random, workload: str, opening: str, stock: list[str]) -> str:
    """Sentences up to the length asked, then what to do with them."""
    ask = _ASKS[workload]
    parts = [f"{opening} {_filled(r, r.choice(_FIRST_SENTENCES))}."]
    size = _size(parts[0]) + _size(ask)
    while size < TOKENS[workload] - 8:
        parts.append(stock[int(r.random() * len(stock))])
        size += _size(parts[-1])
    return " ".join([*parts, ask])


def _filled(r: random.Random, template: str) -> str:
    return template.format_map({slot: r.choice(words) for slot, words in _WORDS.items()})


def _shuffled(r: random.Random, words: list[str]) -> list[str]:
    return r.sample(words, len(words))


_TOKEN = re.compile(r"\w+|[^\w\s]")


@lru_cache(maxsize=4096)
def _size(text: str) -> int:
    """Words and punctuation marks: every word here is one token, with its blank, in the usual BPE vocabularies."""
    return len(_TOKEN.findall(text))
