"""`unisono demo`: five publishers, five topics, two detectors of "a then b then c" that ought to agree.

The set-up of figure 21 of paper 000: on a bare bus each detector hears its own order and finds its own
patterns; with unisono both find the same ones. A wanderer comes late and moves from topic to topic while events
flow; what it hears must be in the same order too. This first act happens in one process, on a service that delays
each notification by a random time of its own. The second act is in demo_processes.py: real processes, a real broker,
a real kill -9. Where the extra `up` is not installed the first act is all, and a line says what to install.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from unisono import Bus, Subscription, connect
from unisono.cli.demo_processes import Outcome as Act
from unisono.cli.demo_processes import play
from unisono.cli.loop import run_loop
from unisono.cli.output import Json, finish, people, print_json
from unisono.cli.patterns import PATTERN, agreement, find_patterns, same_order
from unisono.history import Kind, Outcome, Record, Verdict, judge
from unisono.model.errors import ConfigError
from unisono.server.bundled import has_program

TOPICS = ("alpha", "beta", "gamma", "delta", "epsilon")
DETECTORS = ("anna", "bruno")
WANDERER = "carla"
MOVES = 12  # how often it joins or leaves a topic


@dataclass
class Way:
    """One way of listening, tried by both detectors and by the wanderer."""

    name: str
    options: dict[str, Any]
    heard: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {d: [] for d in DETECTORS})
    delays_ms: list[float] = field(default_factory=list)
    tagged: int = 0
    wandered: list[str] = field(default_factory=list)
    joins: int = 0
    leaves: int = 0

    @property
    def agreement(self) -> float:
        """The share of patterns that both detectors found."""
        return agreement(*(find_patterns(self.heard[d]) for d in DETECTORS))

    @property
    def wanderer_agreement(self) -> float:
        """How much of what the wanderer heard was in the order of the first detector."""
        return same_order([id for id, _ in self.heard[DETECTORS[0]]], self.wandered)

    async def wander(self, events: Subscription, rng: Random, pause_s: float) -> None:
        """Join and leave topics while events flow."""
        for _ in range(MOVES):
            await asyncio.sleep(pause_s)
            away = sorted(set(TOPICS) - events.topics)
            if away and (len(events.topics) == 1 or rng.random() < 0.5):
                await events.add(rng.choice(away))
                self.joins += 1
            else:
                await events.remove(rng.choice(sorted(events.topics)))
                self.leaves += 1

    async def follow(self, events: Subscription) -> None:
        """Note what the wanderer hears in its place."""
        async for event in events:
            if event.in_order:
                self.wandered.append(event.id)

    async def listen(self, detector: str, events: Subscription) -> None:
        """Note every event that may count; a tagged one may not."""
        async for event in events:
            self.delays_ms.append((time.time() - event.published_at) * 1000)
            if event.in_order:
                self.heard[detector].append((event.id, event.data))
            else:
                self.tagged += 1

    def summary(self) -> dict[str, Any]:
        """The figures, for machines."""
        found = {d: len(find_patterns(self.heard[d])) for d in DETECTORS}
        return {
            "way": self.name,
            "events": sum(map(len, self.heard.values())) + self.tagged,
            "tagged": self.tagged,
            "patterns": found,
            "agreement": round(self.agreement, 4),
            "joins": self.joins,
            "leaves": self.leaves,
            "wanderer": {"events": len(self.wandered), "agreement": round(self.wanderer_agreement, 4)},
            "delay_ms": {"p50": _percentile(self.delays_ms, 50), "p99": _percentile(self.delays_ms, 99)},
        }


@dataclass
class Scene:
    """Two buses that get the same events: one bare, one ordered."""

    seconds: float
    rate: float
    jitter_ms: float
    seed: int
    published: int = 0

    def __post_init__(self) -> None:
        self.bare = Way("bare bus", {"order": "none"})
        self.ordered = [
            Way("unisono tag", {"on_gap": "tag"}),
            Way("unisono tag, buffer 30", {"on_gap": "tag", "buffer": 30}),
            Way("unisono wait", {"on_gap": "wait"}),
        ]
        self.bare_history: list[Record] = []
        self.ordered_history: list[Record] = []

    @property
    def ways(self) -> list[Way]:
        """All of them, in the order of the table."""
        return [self.bare, *self.ordered]

    async def play(self, show: Callable[[], None]) -> None:
        """Publish for a while, let everybody hear the rest, and go."""
        url = f"memory://?jitter_ms={self.jitter_ms}&seed={self.seed}"
        bare = connect(url, name="bare", record=self.bare_history)
        ordered = connect(url, name="ordered", record=self.ordered_history)
        async with bare, ordered:
            listeners = [await self._listen(bare, self.bare)]
            listeners += [await self._listen(ordered, way) for way in self.ordered]
            screen = asyncio.create_task(_repeat(show))
            await asyncio.gather(
                *(self._publish(topic, (bare, ordered)) for topic in TOPICS),
                *(self._wander(bare if way is self.bare else ordered, way) for way in self.ways),
            )
            await self._settle()
            screen.cancel()
            for subscriptions in listeners:
                for subscription in subscriptions:
                    await subscription.close()

    async def _listen(self, bus: Bus, way: Way) -> list[Subscription]:
        subscriptions = []
        for detector in DETECTORS:
            events = bus.subscribe(*TOPICS, name=f"{detector}/{way.name}", **way.options)
            await events.open()
            _start(way.listen(detector, events))
            subscriptions.append(events)
        return subscriptions

    async def _wander(self, bus: Bus, way: Way) -> None:
        """Come late, and move about until shortly before the end."""
        await asyncio.sleep(self.seconds / 5)
        events = bus.subscribe(*TOPICS[:2], name=f"{WANDERER}/{way.name}", **way.options)
        await events.open()
        way.joins += 2
        _start(way.follow(events))
        await way.wander(events, Random(self.seed), self.seconds * 0.75 / MOVES)

    async def _publish(self, topic: str, buses: tuple[Bus, ...]) -> None:
        rng = Random(f"{self.seed} {topic}")
        loop = asyncio.get_running_loop()
        end, due = loop.time() + self.seconds, loop.time()
        while (due := due + rng.expovariate(self.rate)) < end:
            await asyncio.sleep(due - loop.time())
            letter = rng.choice(PATTERN)
            for bus in buses:
                bus.publish_nowait(topic, letter)
            self.published += 1

    async def _settle(self) -> None:
        """Wait until everybody has heard everything; bounded, because a broken order might never end."""
        expected = 2 * self.published
        for _ in range(200):
            if all(len(way.delays_ms) >= expected for way in self.ways):
                return
            await asyncio.sleep(0.05)

    def verdicts(self) -> tuple[Verdict, Verdict]:
        """Whether both detectors heard one order: on the bare bus, and with unisono."""
        as_if_promised = [
            Record(**(_fields(r) | {"order": "total"})) if r.kind is Kind.SUBSCRIBED else r
            for r in self.bare_history
        ]
        promise = ["total_notification_order"]
        return judge(as_if_promised, promise)[0], judge(self.ordered_history, promise)[0]


def demo(
    seconds: Annotated[float, typer.Option(min=0.5, max=600, help="How long the first act publishes.")] = 5.0,
    rate: Annotated[float, typer.Option(min=0.1, max=500, help="Events per second and publisher.")] = 12.0,
    jitter_ms: Annotated[
        float, typer.Option(min=0, max=5000, help="Largest delay of a notification.")
    ] = 15.0,
    seed: Annotated[int, typer.Option(help="Decides letters and delays.")] = 7,
    events: Annotated[
        int, typer.Option(min=3, max=100_000, help="Events of each publisher in the second act.")
    ] = 600,
    processes: Annotated[
        bool | None,
        typer.Option(
            "--processes/--no-processes",
            help="Play the second act: real processes on NATS. [default: where the extra 'up' is installed]",
        ),
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Keep what the real processes did as a journal in this folder.")
    ] = None,
    json: Json = False,
) -> None:
    """The problem and the cure side by side; then real processes on a real broker, and one is killed."""
    missing = missing_for_processes(journal)
    if journal is not None and processes is False:
        raise ConfigError("--journal keeps what the real processes did; leave out --no-processes")
    if missing and (processes or journal is not None):
        raise ConfigError(f"real processes need {missing}")
    scene = Scene(seconds, rate, jitter_ms, seed)
    with Live(console=people, refresh_per_second=8, transient=True) as live:
        run_loop(scene.play(lambda: live.update(_table(scene))))
    bare, ordered = scene.verdicts()
    exact = scene.ordered[-1]
    complete = len(exact.delays_ms) == 2 * scene.published
    agreed = exact.agreement == 1.0 and all(way.wanderer_agreement == 1.0 for way in scene.ordered)
    held = agreed and ordered.outcome is Outcome.HELD and complete
    if not json:
        people.print(_table(scene))
        people.print(f"bare bus: [red]{bare.outcome}[/]: {escape(bare.explanation)}")
        colour = "green" if held else "bold red"
        people.print(f"unisono:  [{colour}]{ordered.outcome}[/]: {escape(ordered.explanation)}")
    act = None
    if missing and processes is None:
        people.print(
            f"\nthe second act, real processes on a real broker, needs {escape(missing)}", soft_wrap=True
        )
    elif processes is not False:
        act = _play_processes(events - events % 3, journal, quiet=json)
    if json:
        print_json(
            {
                "published": scene.published,
                "ways": [way.summary() for way in scene.ways],
                "bare_order": bare.outcome,
                "unisono_order": ordered.outcome,
                "explanation": bare.explanation,
                "processes": None if act is None else act.summary(),
                "held": held and (act is None or act.held),
            }
        )
    finish(held=held and (act is None or act.held))


def missing_for_processes(journal: Path | None) -> str:
    """What must be installed for the second act, and how; nothing if all is there."""
    extras = [] if find_spec("nats") and has_program() else ["up"]
    if journal is not None and not (find_spec("pyarrow") and find_spec("numpy")):
        extras.append("journal")
    return f"more than is installed: pip install 'unisono[{','.join(extras)}]'" if extras else ""


def _play_processes(events: int, journal: Path | None, *, quiet: bool) -> Act:
    """The second act."""
    with people.status("…") as status:
        act = play(events, journal, lambda what: status.update(f"real processes: {what}"))
    if not quiet:
        people.print(
            f"\n[bold]real processes[/], {act.seconds:.0f} s: NATS, 2 nodes, 3 publishers, 4 subscribers of overlapping "
            f"topics; {act.published:,} events; node {act.killed} killed with kill -9 half-way"
        )
        colour = "green" if act.held else "bold red"
        complete = "nothing lost" if act.is_complete else "events are missing"
        people.print(
            f"pairs of subscribers that heard one order: [{colour}]{act.agreeing} of {act.pairs}[/], {complete}; "
            f"two listeners to the bare broker disagreed {act.bare_swaps} times"
        )
    return act


def _table(scene: Scene) -> Table:
    table = Table(
        title=f"{scene.published} events on {len(TOPICS)} topics; who finds “a, then b, then c”?",
        box=SIMPLE_HEAD,
        padding=(0, 0),  # nine figures a line, in 80 columns
        pad_edge=False,
    )
    table.add_column("subscribed with", no_wrap=True)
    for column in ("heard", "tagged", *DETECTORS, "both", WANDERER, "joins,\nleaves", "p50, p99\nms"):
        table.add_column(column, justify="right")
    for way in scene.ways:
        figures = way.summary()
        share = figures["agreement"]
        delay = figures["delay_ms"]
        table.add_row(
            way.name,
            str(figures["events"]),
            str(figures["tagged"]),
            *(str(figures["patterns"][d]) for d in DETECTORS),
            _share(share),
            _share(figures["wanderer"]["agreement"]),
            f"{figures['joins']}, {figures['leaves']}",
            f"{delay['p50']:.0f}, {delay['p99']:.0f}",
        )
    return table


def _share(share: float) -> str:
    colour = "green" if share == 1.0 else "yellow" if share > 0.8 else "red"
    return f"[{colour}]{share:.1%}[/]" if share < 1.0 else f"[{colour}]100%[/]"


def _start(work: Coroutine[Any, Any, None]) -> None:
    """Run it beside everything else; what it raises is not lost."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.result())


async def _repeat(show: Callable[[], None]) -> None:
    while True:
        show()
        await asyncio.sleep(0.25)


def _fields(record: Record) -> dict[str, Any]:
    return {name: getattr(record, name) for name in Record.__struct_fields__}


def _percentile(values: list[float], share: int) -> float:
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 1) if ordered else 0.0
