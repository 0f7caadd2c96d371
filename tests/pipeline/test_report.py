"""The report: its numbers are those of the history, and the page stands alone, is well-formed and safe."""

import json
from collections import Counter
from html.parser import HTMLParser

import msgspec
import pytest
from typer.testing import CliRunner

from unisono.cli.main import app
from unisono.history import Kind
from unisono.journal import write_records
from unisono.model.errors import HistoryError, UnisonoError
from unisono.pipeline.plan import make_plan
from unisono.pipeline.plan_document import save_plan
from unisono.pipeline.plan_inputs import journal_rates, journal_subscriptions
from unisono.pipeline.plan_overlaps import count_overlaps
from unisono.pipeline.report import gather_facts, load_audit, render, save_page
from unisono.pipeline.report.charts import LogScale, count, duration, heat_map, histogram_bars
from unisono.pipeline.report.facts import Bucket, Overlaps
from unisono.pipeline.session import open_session
from unisono.sim.simulation import Simulation
from unisono.sim.world import draw_world

pytestmark = pytest.mark.timeout(300)  # Spark starts slowly on a busy machine
SEED = 14  # a world that tags, drops and loses


@pytest.fixture(scope="module")
def spark():
    session = open_session("local[2]")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def records():
    return Simulation(draw_world(SEED)).run().records


@pytest.fixture(scope="module")
def journal(records, tmp_path_factory):
    folder = tmp_path_factory.mktemp("journal")
    write_records(folder, records)
    (folder / "odd").mkdir()
    (folder / "odd" / "<b>.parquet").write_text("nonsense")
    return folder


@pytest.fixture(scope="module")
def facts(spark, journal):
    return gather_facts(spark, journal)


@pytest.fixture(scope="module")
def plan(spark, journal):
    matrix = count_overlaps(journal_subscriptions(spark, journal, 2), 2)
    return make_plan(matrix, journal_rates(spark, journal))


class Page(HTMLParser):
    """Checks that tags nest, and collects what they hold."""

    VOID = frozenset({"meta", "link", "br", "img", "hr", "input"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.attributes, self.text = [], Counter(), [], [], ""
        self.feed(text)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes += [(tag, name, value) for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


AUDIT = {
    "deliveries": 3,
    "verdict": "violated",
    "seconds": 0.5,
    "violations": [
        {"promise": "total_notification_order", "explanation": "<script>alert(1)</script> a before b"}
    ],
    "promises": [
        {"promise": "total_notification_order", "verdict": "violated", "explanation": "twice"},
        {"promise": "publisher_fifo", "verdict": "held", "explanation": "3 deliveries examined"},
        {"promise": "causal_order", "verdict": "held", "explanation": "", "matters": False},
    ],
}


def test_facts_are_those_of_the_history(facts, records):
    kinds = Counter(r.kind.value for r in records)
    assert facts.records == len(records)
    assert {kind: n for kind, n in facts.totals.items() if n and kind != "tagged"} == dict(kinds)
    assert facts.totals["tagged"] == sum(r.kind is Kind.DELIVERED and not r.in_order for r in records)
    delivered = Counter(r.topic for r in records if r.kind is Kind.DELIVERED)
    assert {t.topic: t.delivered for t in facts.topics if t.delivered} == dict(delivered)
    published = {r.event: r for r in records if r.kind is Kind.PUBLISHED}
    assert sum(t.published for t in facts.topics) == len(published)
    assert sum(bucket.deliveries for bucket in facts.histogram) == sum(delivered.values())
    assert facts.phases[-1].events == sum(delivered.values())


def test_latency_is_from_publishing_to_delivery(facts, records):
    published = {r.event: r.at for r in records if r.kind is Kind.PUBLISHED}
    for topic in facts.topics:
        waits = [
            1000 * (r.at - published[r.event])
            for r in records
            if r.kind is Kind.DELIVERED and r.topic == topic.topic
        ]
        if waits:
            assert min(waits) - 1e-6 <= topic.latency_ms_p50 <= topic.latency_ms_p99 <= max(waits) + 1e-6
            assert sum(wait <= topic.latency_ms_p50 + 1e-6 for wait in waits) >= len(waits) / 2


def test_stamp_bytes_are_those_of_names_and_numbers(facts, records):
    for topic in facts.topics:
        stamps = [r.stamp for r in records if r.kind is Kind.DELIVERED and r.topic == topic.topic and r.stamp]
        if stamps:
            sizes = [sum(len(name) + 1 + 5 for name in stamp) for stamp in stamps]
            assert topic.stamp_bytes == pytest.approx(sum(sizes) / len(sizes), abs=0.06)


def test_what_could_not_be_read_is_told(facts):
    assert [name for name, _ in facts.refused] == ["<b>.parquet"]
    assert "&lt;b&gt;.parquet" in render(facts)


def test_the_page_is_well_formed_and_stands_alone(facts, plan):
    html = render(facts, load_audit(AUDIT), plan)
    page = Page(html)
    assert html.count("<title>unisono report") == page.tags["h1"] == page.tags["main"] == 1
    assert page.tags["script"] == page.tags["link"] == page.tags["img"] == 0
    assert not [value for _, name, value in page.attributes if name in ("src", "href")]
    assert len(page.ids) == len(set(page.ids))
    assert ("html", "lang", "en") in page.attributes
    labels = {value for _, name, value in page.attributes if name == "aria-labelledby"}
    assert labels <= set(page.ids)
    pictures = [tag for tag, name, value in page.attributes if (name, value) == ("role", "img")]
    described = [tag for tag, name, _ in page.attributes if name == "aria-label"]
    assert len(described) >= len(pictures) >= 2
    assert page.tags["table"] >= 5


def test_nothing_in_the_data_becomes_markup(facts, plan):
    html = render(facts, load_audit(AUDIT), plan)
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)" in html


def test_verdicts_come_with_explanations(facts):
    text = Page(render(facts, load_audit(AUDIT))).text
    assert "A promise was broken." in text
    assert "a before b" in text
    assert "twice" not in text  # the violation itself says it better
    assert "3 deliveries examined" in text
    assert "not promised" in text
    assert "Not audited yet." in Page(render(facts)).text


@pytest.mark.parametrize(
    "data",
    [{}, {"verdict": "fine"}, {"verdict": "held", "violations": 3}, {"verdict": "held", "violations": [1]}],
)
def test_what_is_no_audit_is_refused(data):
    with pytest.raises(HistoryError, match="is not an audit"):
        load_audit(data)


def test_an_audit_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(HistoryError, match="cannot be read"):
        load_audit(tmp_path / "none.json")
    (tmp_path / "half.json").write_text("{")
    with pytest.raises(HistoryError, match="is not an audit"):
        load_audit(tmp_path / "half.json")


def test_a_page_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UnisonoError, match="cannot be written"):
        save_page("x", tmp_path / "file" / "report.html")


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        *((None, "–"), (0.0, "0 µs"), (0.0123, "12.3 µs"), (0.9999, "1.00 ms"), (1.0, "1 ms")),
        *((1.234, "1.23 ms"), (99.96, "100 ms"), (999.7, "1.00 s"), (1500.0, "1.50 s"), (7.2e6, "7,200 s")),
    ],
)
def test_times_are_written_for_people(ms, words):
    assert duration(ms) == words


def test_numbers_are_written_for_people():
    assert [count(v) for v in (0, 1234567, 2.0, 2.345, 1234.5)] == ["0", "1,234,567", "2", "2.35", "1,234"]


def test_a_log_scale_keeps_everything_on_the_track():
    scale = LogScale([0.02, 3.0, 450.0])
    assert (scale.place(0.01), scale.place(1000.0), scale.place(None)) == (0.0, 100.0, 0.0)
    assert scale.place(0.02) < scale.place(3.0) < scale.place(450.0)
    assert len(scale.ticks()) <= 6
    assert len(LogScale([]).ticks()) >= 2


def test_labels_of_a_histogram_are_few():
    bars = histogram_bars([Bucket(2.0**i, 2.0 ** (i + 1), i) for i in range(30)])
    assert sum(bool(bar["label"]) for bar in bars) <= 6
    assert max(bar["height"] for bar in bars) == 100
    assert histogram_bars([]) == []


def test_a_heat_map_shows_pairs_and_escapes_names():
    svg = heat_map(Overlaps(("a&b", "long." * 12 + "name"), ((3, 2), (2, 5)), 0))
    assert "a&amp;b and" in svg
    assert ">2</text>" in svg
    assert svg.count("<rect") == 4
    Page(svg)
    assert heat_map(Overlaps((), (), 0)) == ""


def test_the_command_writes_the_page_and_prints_the_facts(journal, plan, facts, tmp_path):
    save_plan(plan, tmp_path / "plan.json")
    (tmp_path / "audit.json").write_text(json.dumps(AUDIT))
    out = tmp_path / "deep" / "report.html"
    inputs = ("--audit", str(tmp_path / "audit.json"), "--plan", str(tmp_path / "plan.json"))
    done = CliRunner().invoke(
        app, ["pipeline", "report", "--journal", str(journal), *inputs, "--out", str(out), "--json"]
    )
    assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert msgspec.convert(shown["facts"], type(facts)) == facts
    assert shown["plan"].keys() == {"before", "after"}
    assert "The plan" in Page(out.read_text()).text
