"""What this release says and stores, written down for the next one: `python scripts/record_release.py > tests/data/release_N.json`.

Every struct that travels or is stored with its fields, and an example of each as bytes. The next release must only add
fields at the end, with a default, and read the examples: `tests/runtime/test_releases.py`. Run it when a release is
made, with its SPEAKS as N.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from msgspec import inspect

from unisono.engines.plan import Plan
from unisono.engines.takeover.control import Intent, first_control
from unisono.engines.takeover.wire import _Control, encode_control
from unisono.engines.topic_managers.describing import NodeDescription
from unisono.model import codec
from unisono.model.frames import Packet, Replan
from unisono.model.lanes import LaneRecord
from unisono.runtime.remote.wire import Beat, Note, Told, encode

try:
    from unisono.model.release import SPEAKS
except ImportError:  # the first one did not say
    SPEAKS = 1

SHAPES = {
    "frame": codec.Frame,
    "packet": Packet,
    "record": LaneRecord,
    "note": Note,
    "beat": Beat,
    "told": Told,
    "description": NodeDescription,
    "wish": Replan,
    "control": _Control,
}


def members(shape: Any) -> list[Any]:
    """The structs that something may be."""
    info = inspect.type_info(shape)
    return [one.cls for one in (info.types if isinstance(info, inspect.UnionType) else [info])]


def reached(shapes: list[Any]) -> dict[str, Any]:
    """All structs in them, and in their fields, by name."""
    found: dict[str, Any] = {}

    def visit(info: Any) -> None:
        if isinstance(info, inspect.StructType):
            if info.cls.__name__ in found:
                return
            found[info.cls.__name__] = info
            for field in info.fields:
                visit(field.type)
        for name in ("item_type", "key_type", "value_type"):
            if (inner := getattr(info, name, None)) is not None:
                visit(inner)
        for inner in [*getattr(info, "types", ()), *getattr(info, "item_types", ())]:
            visit(inner)

    for shape in shapes:
        visit(inspect.type_info(shape))
    return found


def described(info: Any) -> dict[str, Any]:
    """A struct: its tag, and its fields with their types and whether they may be missing."""
    return {
        "tag": info.tag,
        "array": info.array_like,
        "fields": [[field.encode_name, spelt(field.type), not field.required] for field in info.fields],
    }


def spelt(info: Any) -> str:
    """A type in words that do not change with its bounds."""
    if isinstance(info, inspect.StructType):
        return info.cls.__name__
    if isinstance(info, inspect.NamedTupleType):
        return f"tuple[{', '.join(spelt(field.type) for field in info.fields)}]"
    if isinstance(info, inspect.UnionType):
        return " | ".join(sorted(spelt(one) for one in info.types))
    if isinstance(info, inspect.DictType):
        return f"dict[{spelt(info.key_type)}, {spelt(info.value_type)}]"
    if isinstance(info, inspect.TupleType):
        return f"tuple[{', '.join(spelt(one) for one in info.item_types)}]"
    if (item := getattr(info, "item_type", None)) is not None:
        return f"row[{spelt(item)}]"
    if isinstance(info, inspect.LiteralType):
        return " | ".join(sorted(map(repr, info.values)))
    return type(info).__name__.removesuffix("Type").lower()


def example(info: Any) -> Any:
    """Some value of a type."""
    match info:
        case inspect.StructType() | inspect.NamedTupleType():
            return info.cls(**{field.name: example(field.type) for field in info.fields})
        case inspect.UnionType():
            return example(max(info.types, key=lambda one: not isinstance(one, inspect.NoneType)))
        case inspect.DictType():
            return {example(info.key_type): example(info.value_type)}
        case inspect.TupleType():
            return tuple(example(one) for one in info.item_types)
        case inspect.VarTupleType():
            return (example(info.item_type),)
        case inspect.ListType():
            return [example(info.item_type)]
        case inspect.LiteralType():
            return info.values[0]
        case inspect.IntType():
            return 7
        case inspect.FloatType():
            return 0.5
        case inspect.BoolType():
            return True
        case inspect.BytesType():
            return b"bytes"
        case inspect.NoneType():
            return None
        case _:
            return "word"


def controls() -> list[bytes]:
    """Control records of a system with topics: active, sealing, active again."""
    plan = Plan(
        rank=("b", "a"), parent={"b": None, "a": "b"}, group={"a": {"a", "b"}, "b": {"a", "b"}}, epoch=1
    )
    first = first_control(plan, {"a": "n1", "b": "n2"}, ("n1", "n2"))
    sealing = first.sealing("n1", Intent("forest", ("b", "a"), (("a", "b"),)), dead=("n2",))
    return [encode_control(one) for one in (first, sealing, sealing.active(plan))]


def main() -> None:
    """Print it."""
    structs = reached(list(SHAPES.values()))
    examples = {
        kind: [encode(example(inspect.type_info(one))).hex() for one in members(shape)]
        for kind, shape in SHAPES.items()
        if kind not in ("control", "told")
    }
    examples["control"] = [data.hex() for data in controls()]
    examples["told"] = [encode(Told(5, data)).hex() for data in controls()]
    document = {
        "speaks": SPEAKS,
        "version": codec.VERSION,
        "structs": {name: described(info) for name, info in sorted(structs.items())},
        "examples": examples,
    }
    json.dump(document, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
