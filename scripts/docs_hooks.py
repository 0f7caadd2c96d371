"""What `make docs` does to the pages on their way into the site.

The pages are written to be read in the repository. Here README, ARCHITECTURE, CHANGELOG and the list of examples join
them, the reference of the commands is made from the commands, links that lead out of the site (to code) become plain
paths, and lists get the empty line that Python-Markdown wants before them. A page that the navigation does not name is
put at its end, so that nothing is ever left out.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]

# what is not in docs/, and where it goes
JOINED = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
}
COMMANDS = "reference/commands.md"
SHIM, LOCAL_SHIM = "https://unpkg.com/iframe-worker/shim", "assets/iframe-worker.js"
LINK = re.compile(r"(?P<mark>!?)\[(?P<words>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
FENCE = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
ITEM = re.compile(r"\s*(?:[-*]|\d+\.) ")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made or live elsewhere."""
    sys.path.insert(0, str(ROOT / "scripts"))
    from cli_reference import reference

    for source, page in JOINED.items():
        if (ROOT / source).exists():
            files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, COMMANDS, content=reference()))
    named = set(_named(config["nav"]))
    left = sorted(file.src_uri for file in files.documentation_pages() if file.src_uri not in named)
    if left:
        config["nav"].append({"More": left})
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """The page as Python-Markdown wants it, with links that stay in the site."""
    place = next((s for s, p in JOINED.items() if p == page.file.src_uri), f"docs/{page.file.src_uri}")
    parts = FENCE.split(markdown)
    return "".join(
        part if part.startswith("```") else _spaced(_relinked(part, place, page.file.src_uri, files))
        for part in parts
    )


def on_post_page(output: str, page: Any, config: Any) -> str:
    """The page without anything from elsewhere: the theme asks a server for one script, which is here as well."""
    return output.replace(SHIM, posixpath.relpath(LOCAL_SHIM, posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for the page that is shown when there is none."""
    return output_content.replace(SHIM, LOCAL_SHIM)


def _relinked(text: str, place: str, page: str, files: Files) -> str:
    def better(match: re.Match[str]) -> str:
        words = LINK.sub(better, match["words"])  # which may be an image
        target, hash_, anchor = match["target"].partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place), target))
        inside = JOINED.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if target and inside is not None and files.get_file_from_path(inside) is not None:
            near = posixpath.relpath(inside, posixpath.dirname(page) or ".")
            return f"{match['mark']}[{words}]({near}{hash_}{anchor})"
        if not target or ":" in target or not (ROOT / path).exists():
            return f"{match['mark']}[{words}]({match['target']})"  # elsewhere, here, or for MkDocs to complain about
        return f"`{path}`" if words.strip("`") in (path, posixpath.basename(path)) else f"{words} (`{path}`)"

    return LINK.sub(better, text)


def _spaced(text: str) -> str:
    """An empty line before every list that follows a paragraph at once."""
    lines: list[str] = []
    for line in text.split("\n"):
        before = lines[-1] if lines else ""
        if (
            ITEM.match(line)
            and before.strip()
            and not ITEM.match(before)
            and not before.startswith((" ", "|"))
        ):
            lines.append("")
        lines.append(line)
    return "\n".join(lines)


def _named(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    if isinstance(nav, dict):
        return [name for value in nav.values() for name in _named(value)]
    return [name for entry in nav or [] for name in _named(entry)]
