"""Everything public is documented, and what the documents show can be typed: names, commands, options, anchors."""

import importlib.util
import inspect
import re
import shlex
from pathlib import Path

import pytest

import unisono
import unisono.history
import unisono.testing
from unisono.cli.settings import Settings, UpSettings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = script("cli_reference")
COMMANDS = dict(REFERENCE.commands())


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_says_what_it_does_and_what_it_may_be_told(words):
    command = COMMANDS[words]
    assert command.help, f"'{words}' has no docstring"
    assert getattr(command, "commands", None) or any("--json" in p.opts for p in command.params)
    for parameter in REFERENCE.parameters(command):
        assert parameter.help, f"'{words}': {parameter.name} has no help"


def test_the_reference_has_every_command_and_option():
    page = REFERENCE.reference()
    for words, command in COMMANDS.items():
        assert f"`{words}`\n" in page
        for parameter in REFERENCE.parameters(command):
            for option in parameter.opts:
                assert (f"`{option}`" if option.startswith("-") else f"`{option.upper()}`") in page


@pytest.mark.parametrize("module", [unisono, unisono.history, unisono.testing], ids=lambda m: m.__name__)
def test_what_is_public_has_a_docstring(module):
    for name in module.__all__:
        thing = getattr(module, name)
        if not (inspect.isclass(thing) or inspect.isfunction(thing)):
            continue
        told = thing.__doc__ or f"{name}("  # which is what a dataclass says that has none of its own
        assert not told.startswith(f"{name}("), f"{module.__name__}.{name} has no docstring"
        for member in inspect.classify_class_attrs(thing) if inspect.isclass(thing) else ():
            ours = member.defining_class.__module__.startswith("unisono")
            if ours and not member.name.startswith(("_", "test_")) and member.kind != "data":
                assert inspect.getdoc(member.object), f"{name}.{member.name} has no docstring"


def test_every_public_name_is_on_the_page_of_names():
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    for name in set(unisono.__all__) - {"__version__"}:
        assert f"::: unisono.{name}\n" in page
    for name in unisono.history.__all__:  # judge is a module as well
        assert f"        - {name}\n" in page or f"::: unisono.history.{name}.{name}\n" in page
    for name in unisono.testing.__all__:
        assert f"::: unisono.testing.{name}\n" in page


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text())
    found = []
    for heading in re.findall(r"^#+ +(.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        found.append(slug if slug not in found else f"{slug}-{found.count(slug)}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_to_headings_lead_to_one(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", FENCE.sub("", page.read_text())):
        path, _, anchor = target.partition("#")
        other = (page.parent / path).resolve() if path else page
        assert other.exists(), f"{page.name} links to {target}"
        if anchor and other.suffix == ".md":
            assert anchor in anchors(other), f"{page.name} links to {target}; there are {anchors(other)}"


def shown():
    """Every line of a shell in the documents that runs our command, by page."""
    for page in PAGES:
        for kind, block in FENCE.findall(page.read_text()):
            if kind in ("sh", "console", "bash", ""):
                for line in block.replace("\\\n", " ").splitlines():
                    for part in re.split(r"[|;&]{1,2} ", line.removeprefix("$ ").split("  # ")[0]):
                        words = re.match(r"(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?(unisono .+)", part.strip())
                        if words:
                            yield page.relative_to(ROOT), words[1]
        for line in re.findall(r"`(?:\.venv/bin/)?(unisono [a-z][^`…]*)`", FENCE.sub("", page.read_text())):
            for one in re.search(r"\S+\|\S+|$", line)[0].split("|"):  # `unisono up|node --url`: each of them
                yield page.relative_to(ROOT), re.sub(r"\S+\|\S+", one, line, count=1)


@pytest.mark.parametrize("page", sorted({str(page) for page, _ in shown()}))
def test_commands_in_the_documents_can_be_typed(page):
    for line in [line for where, line in shown() if str(where) == page]:
        words = shlex.split(
            line.replace("'unisono", "unisono") if line.count("'") % 2 else line, comments=True
        )
        best = max((w for w in COMMANDS if words[: len(w.split())] == w.split()), key=len)
        command = COMMANDS[best]
        rest = words[len(best.split()) :]
        if getattr(command, "commands", None):
            assert not rest or rest[0].startswith("-"), f"{page}: there is no command in '{line}'"
        known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        for option in re.findall(r"(?<!\S)--[a-z][\w-]*", " ".join(rest)):
            assert option in known, f"{page}: '{line}' has {option}, which {best} does not know"


def test_every_example_is_listed():
    listed = (ROOT / "examples" / "README.md").read_text()
    for example in [*(ROOT / "examples").rglob("*.py"), *(ROOT / "examples").rglob("*.toml")]:
        assert f"examples/{example.relative_to(ROOT / 'examples')}" in listed


def test_every_setting_is_in_the_table():
    page = (ROOT / "docs" / "operations.md").read_text()
    table = page.partition("\n## Settings\n")[2].partition("\n## ")[0]
    for name in (*Settings.__struct_fields__, *UpSettings.__struct_fields__):
        assert f"`{name}`" in table or name == "up", f"operations.md does not name the setting {name}"


def test_the_navigation_leads_to_pages():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    made = set(re.findall(r'"([\w/]+\.md)"', (ROOT / "scripts" / "docs_hooks.py").read_text()))
    for page in re.findall(r": (\S+\.md)$", nav, re.MULTILINE):
        assert page in made or (ROOT / "docs" / page).exists()
