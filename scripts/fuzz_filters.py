"""A million random filter texts and events: `make fuzz-filters`. Ends with 1 if anything was wrong."""

from __future__ import annotations

import json
import sys
import time

import msgspec

from unisono.lab.filter_fuzz import Fuzzed, fuzz

TEXTS = 1_000_000
TELL_EVERY = 100_000


def tell(result: Fuzzed) -> None:
    """A line now and then."""
    if result.texts % TELL_EVERY == 0:
        print(f"{result.texts:,} texts, {len(result.wrong)} wrong", file=sys.stderr)


if __name__ == "__main__":
    began = time.process_time()
    found = fuzz(int(sys.argv[1]) if len(sys.argv) > 1 else TEXTS, tell=tell)
    print(
        json.dumps(
            {**msgspec.to_builtins(found), "processor_s": round(time.process_time() - began)}, indent=2
        )
    )
    sys.exit(bool(found.wrong))
