"""`unisono.connect`: a URL and some options become a bus."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from unisono.ens.registry import open_service
from unisono.history.record import Record
from unisono.model.errors import ConfigError
from unisono.runtime.bus import PAYLOAD_BYTES_MAX, Bus
from unisono.runtime.options import check_number
from unisono.runtime.recorder import make_recorder

if TYPE_CHECKING:
    from unisono.journal.options import Journal  # it needs pyarrow, and not everybody has it


def connect(
    url: str = "memory://",
    *,
    name: str | None = None,
    record: list[Record] | str | Path | None = None,
    journal: Journal | str | Path | None = None,
    outbox: int = 65536,
    payload_max: int = PAYLOAD_BYTES_MAX,
    publish_timeout: float = 30.0,
) -> Bus:
    """A bus on the service behind `url`. Lazy: nothing happens before `async with bus`.

    `name` is who publishes (made up if left out); `record` takes the history, in a list or a file of JSON
    lines, `journal` in a folder of Parquet segments; `outbox` is how many events may wait to be sent,
    `payload_max` how many bytes one may have, `publish_timeout` how many seconds `publish` waits for its
    confirmation.
    """
    if name is not None and (not isinstance(name, str) or not name or "/" in name or name != name.strip()):
        raise ConfigError(f"name={name!r}; a bus has a name without slashes or spaces around it")
    check_number("outbox", outbox, whole=True, least=1)
    check_number("payload_max", payload_max, whole=True, least=1)
    check_number("publish_timeout", publish_timeout, positive=True)
    service = open_service(url)
    if not service.capabilities.carries_objects:
        scheme = url.partition(":")[0]
        raise ConfigError(
            f"{scheme}:// carries frames between processes, and this version orders events within one process only; "
            "use memory://, or the adapter on its own (unisono.ens)"
        )
    name = name or f"bus-{secrets.token_hex(4)}"
    recorder = make_recorder(name, record, journal)
    return Bus(service, name, recorder, outbox, payload_max, publish_timeout)
