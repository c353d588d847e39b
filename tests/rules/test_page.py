"""The page on explain lists every rule as the catalogue has it. `python tests/rules/test_page.py` writes the list."""

from __future__ import annotations

from pathlib import Path

from plait.rules import CATEGORIES, rules

PAGE = Path(__file__).parents[2] / "docs" / "explain.md"
HEADING = "## The rules\n\n"


def listed() -> str:
    """The list of rules, by category."""
    parts = []
    for category in CATEGORIES:
        own = "\n".join(f"| `{each.name}` | {each.title} |" for each in rules() if each.category == category)
        parts.append(f"### {category.capitalize()}\n\n| rule | finds |\n|---|---|\n{own}\n")
    return "\n".join(parts)


def test_the_page_lists_every_rule() -> None:
    text, heading, rest = PAGE.read_text().partition(HEADING)
    assert text and heading
    assert rest == listed(), "docs/explain.md is stale: python tests/rules/test_page.py writes it"


if __name__ == "__main__":
    before, _, _ = PAGE.read_text().partition(HEADING)
    PAGE.write_text(before + HEADING + listed())
