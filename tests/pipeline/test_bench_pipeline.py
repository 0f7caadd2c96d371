"""`unisono bench pipeline --json` prints the contract, and what misses a target is said."""

from __future__ import annotations

import json

import pytest
import typer

from unisono.cli import bench_pipeline


def figures(deliveries: int, certificate: int = 900_000, independent: int = 500_000) -> dict[str, object]:
    return {
        "deliveries": deliveries,
        "certificate_per_s": certificate,
        "independent_per_s": independent,
        "reference_per_s": 250_000,
        "ratio": 2.0,
        "memory_mib": {"driver": 1, "worker": 2, "java": 3},
        "seconds": 1.0,
    }


@pytest.mark.parametrize(
    ("results", "code", "words"),
    [
        ([figures(2_000_000), figures(50_000_000)], 0, ""),
        (
            [figures(2_000_000, certificate=799_999)],
            1,
            "certificate at 799,999/s over 2,000,000, target 800,000",
        ),
        ([figures(2_000_000, independent=399_999)], 1, "independent at 399,999/s"),
        (
            [figures(2, 2_000_000), figures(50, 1_590_000)],
            1,
            "certificate costs 1.26 times as much per delivery at 50",
        ),
        ([figures(2, 2_000_000), figures(50, 1_610_000)], 0, ""),
    ],
)
def test_the_document_and_the_targets(results, code: int, words: str, monkeypatch, capsys) -> None:
    class Spark:
        def stop(self) -> None: ...

    ready = iter([figures(20_000), *results])
    monkeypatch.setattr(bench_pipeline, "_measure", lambda *args, **options: next(ready))
    monkeypatch.setattr("unisono.pipeline.session.open_session", lambda master: Spark())
    monkeypatch.setattr("unisono.pipeline.tasks.OnSpark", lambda spark: None)
    sizes = ",".join("0.01" for _ in results)
    with pytest.raises(typer.Exit) as ended:
        bench_pipeline.pipeline(sizes=sizes, cores=2, repeats=1, reference=True, json=True)
    assert ended.value.exit_code == code
    told = capsys.readouterr()
    contract = ["deliveries", "certificate_per_s", "independent_per_s", "reference_per_s"]
    assert [list(row) for row in json.loads(told.out)] == [contract] * len(results)
    assert words in " ".join(told.err.split())
    assert ("missed" in told.err) == bool(code)
