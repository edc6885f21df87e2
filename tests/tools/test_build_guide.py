"""Compare the generated parts of the committed guide with the headings and the classes."""

import pytest

from bakeoff.suite.spec.fields import FrozenSpec
from tools.build_guide import GUIDE, KINDS, contents, data, fields


def test_the_guide_is_up_to_date() -> None:
    guide = GUIDE.read_text("utf-8")
    for name, text in (("contents", contents(guide)), ("data", data()), ("fields", fields())):
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        assert guide.partition(begin)[2].partition(end)[0].strip() == text, "run `make catalogue`"


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_described_in_one_sentence(kind: type[FrozenSpec]) -> None:
    table = fields().partition(f"**`{kind.__name__}`**")[2].partition("\n\n**")[0]
    rows = {line.split("`")[1]: line for line in table.splitlines() if line.startswith("| `")}
    for name in rows:
        assert rows[name].endswith(". |")
        assert len(rows[name]) < 420
    inherited = {name for base in kind.__bases__ for name in getattr(base, "model_fields", ())}
    assert rows.keys() == set(kind.model_fields) - inherited


def test_the_contents_are_the_headings_outside_of_code() -> None:
    text = "## First one\n```\n## no heading\n```\n### below\n## Second (it's `x`)\n"
    assert contents(text) == "[First one](#first-one) ·\n[Second (it's `x`)](#second-its-x)"
