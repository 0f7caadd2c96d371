"""What the tests of the journal share: histories, runs and waiting with a bound."""

import asyncio
import time

from hypothesis import strategies as st

from unisono.history import Kind, Record
from unisono.model.frames import Publication, Run, count_topics

TOPICS = ["a", "b,c", "d%2C", "e.ü", "f"]
NUMBERS = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text(st.characters(exclude_categories=("Cs",)), max_size=5)


@st.composite
def histories(draw):
    """Records of a few processes, each counting up, with everything a record can hold."""
    records, seqs = [], {}
    for _ in range(draw(st.integers(0, 12))):
        process = draw(st.sampled_from(["p", "_q/..", "ü .", "%25"]))
        seqs[process] = seqs.get(process, 0) + draw(st.integers(1, 3))
        publisher = draw(NAMES)
        records.append(
            Record(
                draw(st.sampled_from(list(Kind))),
                process,
                seqs[process],
                draw(st.floats(allow_nan=False)),
                event=draw(st.sampled_from(["", f"{publisher}/{draw(NUMBERS)}/{draw(NUMBERS)}"])),
                topic=draw(NAMES),
                number=draw(NUMBERS),
                stamp=draw(st.none() | st.dictionaries(st.sampled_from(TOPICS), NUMBERS)),
                epoch=draw(st.integers(0, 2**31 - 1)),
                in_order=draw(st.booleans()),
                order=draw(NAMES),
                on_gap=draw(NAMES),
                reason=draw(NAMES),
                subscription=draw(NAMES),
            )
        )
    return records


def deliveries(count, process="p", start=1):
    """A subscription and so many deliveries, as records."""
    first = Record(Kind.SUBSCRIBED, process, start, 1.0, topic="t", order="total", on_gap="wait")
    return [first] + [
        Record(Kind.DELIVERED, process, start + i, 1.0 + i, f"x/1/{i}", "t", i, {"t": i, "u": 7})
        for i in range(1, count)
    ]


def run_of(events, groups, epoch=3):
    """A run with so many events on the topics of `groups`, in turn."""
    topics = sorted({topic for group in groups.values() for topic in group} | groups.keys())
    publishing = sorted(groups)
    publications = [
        Publication("pub", 7, i + 1, publishing[i * i % len(publishing)], b"body", 0, 100.0 + i, i + 1)
        for i in range(events)
    ]
    index = {topic: place for place, topic in enumerate(topics)}
    base = [10 * (place + 1) for place in range(len(topics))]
    return Run(epoch, index, base, groups, publications, count_topics(publications))


async def happens(condition, patience_s=20.0):
    """Wait until `condition()` is true, and let others run meanwhile."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        await asyncio.sleep(0.005)


def until(condition, patience_s=20.0):
    """Wait until `condition()` is true."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
