"""Five people watch one video: play, pause, seek and comment, over a network that delays and loses what they say.

Each is a process. Whatever is said is of use for a second: a `seek` that comes later helps nobody. Nobody is shown a
reply before what it replies to, and nobody waits for what does not come.

python examples/shared_video.py [--seconds 10]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

import unisono

VIEWERS = ("anna", "bert", "cleo", "dora", "emil")
CONTROL, COMMENTS = "video.control", "video.comments"
USEFUL_S = 1.0
BAD = unisono.Deadlines(jitter_s=0.15, loss=0.05)  # of every letter of every viewer
LINES = ("look at that!", "what?", "again, please", "no!", "I knew it", "who is she?")


class Player:
    """The video as one viewer has it."""

    def __init__(self) -> None:
        self.count = 0  # of what was done to it
        self.by = ""
        self.playing = False
        self.position = 0.0
        self.since = time.monotonic()

    @property
    def now(self) -> float:
        return self.position + (time.monotonic() - self.since if self.playing else 0.0)

    def apply(self, action: dict[str, Any]) -> None:
        """Do what somebody did; of two at the same time, the same one wins everywhere."""
        if (action["count"], action["by"]) > (self.count, self.by):
            self.count, self.by = action["count"], action["by"]
            self.playing, self.position = action["playing"], action["position"]
            self.since = time.monotonic()

    def action(self, by: str) -> dict[str, Any]:
        """What somebody does next, knowing this."""
        doing = random.choice(("play", "pause", "seek"))
        position = random.uniform(0, 5400) if doing == "seek" else self.now
        playing = self.playing if doing == "seek" else doing == "play"
        return {"do": doing, "by": by, "count": self.count + 1, "playing": playing, "position": position}


async def view(name: str, url: str, seconds: float) -> None:
    """One viewer: says what it sees as lines of JSON, for the screen."""
    random.seed(name)
    player, shown, replied_to = Player(), 0, set[str]()
    latest, early, longest_s = "", 0, 0.0
    async with (
        unisono.connect(url, name=name, deadlines=BAD) as bus,
        bus.subscribe(CONTROL, COMMENTS, order="causal", deadline=USEFUL_S) as events,
    ):

        async def act() -> None:
            while True:
                await asyncio.sleep(random.uniform(0.2, 0.8))
                if random.random() < 0.4:
                    bus.publish_nowait(CONTROL, player.action(name) | {"re": latest}, deadline=USEFUL_S)
                else:
                    said = {"by": name, "text": random.choice(LINES), "re": latest}
                    bus.publish_nowait(COMMENTS, said, deadline=USEFUL_S)

        acting = asyncio.create_task(act())
        try:
            async with asyncio.timeout(seconds):
                async for event in events:
                    early += event.id in replied_to  # it comes after a reply to it: that never happens
                    replied_to.add(event.data["re"])
                    latest, shown, longest_s = event.id, shown + 1, max(longest_s, event.waited)
                    if event.topic == CONTROL:
                        player.apply(event.data)
                    last = event.data.get("text") or f"{event.data['do']} {event.data['position']:.0f} s"
                    report = {"viewer": name, "playing": player.playing, "at": player.now, "shown": shown}
                    report |= {"last": f"{event.data['by']}: {last}", "dropped": events.dropped}
                    print(json.dumps(report | {"early": early, "longest_s": longest_s}), flush=True)
        except TimeoutError:
            pass
        finally:
            acting.cancel()


def screen(reports: dict[str, dict[str, Any]]) -> Table:
    """What all of them see."""
    table = Table(title=f"every letter up to {BAD.jitter_s:g} s late, {BAD.loss:.0%} of them lost")
    for title in ("viewer", "video", "last thing shown", "shown", "dropped", "longest wait"):
        table.add_column(title, justify="left" if title in ("viewer", "last thing shown") else "right")
    for name in VIEWERS:
        if name in reports:
            r = reports[name]
            video = f"{'▶' if r['playing'] else '⏸'} {r['at'] // 60:3.0f}:{r['at'] % 60:02.0f}"
            row = (name, video, r["last"], str(r["shown"]), str(r["dropped"]), f"{r['longest_s']:.2f} s")
            table.add_row(*row)
        else:
            table.add_row(name, "…")
    return table


async def start(*words: str) -> asyncio.subprocess.Process:
    """A process of ours that says lines of JSON."""
    return await asyncio.create_subprocess_exec(sys.executable, *words, stdout=asyncio.subprocess.PIPE)


async def main(seconds: float) -> int:
    """A dispatcher, five viewers, and what they see."""
    console = Console(stderr=True)
    dispatcher = await start("-m", "unisono", "dispatcher", "--json", "--listen", "udp://127.0.0.1:0")
    assert dispatcher.stdout is not None
    url = json.loads(await dispatcher.stdout.readline())["url"]
    viewers = [await start(__file__, "--viewer", name, url, "--seconds", str(seconds)) for name in VIEWERS]
    reports: dict[str, dict[str, Any]] = {}
    try:
        with Live(screen(reports), console=console, refresh_per_second=8) as live:

            async def read(viewer: asyncio.subprocess.Process) -> None:
                assert viewer.stdout is not None
                async for line in viewer.stdout:
                    report = json.loads(line)
                    reports[report["viewer"]] = report
                    live.update(screen(reports))

            await asyncio.wait_for(asyncio.gather(*map(read, viewers)), seconds + 60)
    finally:
        for process in (*viewers, dispatcher):
            if process.returncode is None:
                process.kill()
            await process.wait()
    shown = sum(r["shown"] for r in reports.values())
    early = sum(r["early"] for r in reports.values())
    dropped = sum(r["dropped"] for r in reports.values())
    print(
        f"{shown} shown to {len(reports)} viewers in time, {dropped} dropped, {early} shown after a reply to it"
    )
    return 0 if len(reports) == len(VIEWERS) and early == 0 else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--viewer", nargs=2, metavar=("NAME", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.viewer:
        name, url = options.viewer
        asyncio.run(view(name, url, options.seconds))
    else:
        sys.exit(asyncio.run(main(options.seconds)))
