"""The experiments of the reproductions, by name: what they take and measure; numpy is imported when one is run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from unisono.lab.experiments import Experiment, Figures, Parameter, Value

SEQUENCERS = ("paper", "paper_direct", "forward", "planned", "together", "ours")
PUBLICATIONS = ("worst", "uniform", "power")
LATENCY_FIGURES = (
    "total_s",
    "ordering_s",
    "diffusion_s",
    "bound_s",
    "events_within",
    "notifications_within",
    "entries",
)


def _run(module: str) -> Callable[[Mapping[str, Value], int], Figures]:
    """The `run` of a module of this package, imported when it is first called."""

    def run(parameters: Mapping[str, Value], seed: int) -> Figures:
        figures: Figures = import_module(f"unisono.lab.reproduce.{module}").run(parameters, seed)
        return figures

    return run


def _count(says: str, most: float) -> Parameter:
    return Parameter(says, least=1, most=most, whole=True)


REPRODUCTIONS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            name="000-latency",
            says="topics that everybody holds, on SCRIBE: how long events take to be stamped and heard",
            parameters={
                "nodes": _count("of the ring, all of them subscribers", 100_000),
                "topics": _count("how many", 10_000),
                "events": _count("published, one a second", 100_000),
                "publication": Parameter("which topics are published on", PUBLICATIONS),
                "sequencer": Parameter("the paper's chain, or what we do instead", SEQUENCERS),
            },
            figures=LATENCY_FIGURES,
            run=_run("latency"),
        ),
    )
}
