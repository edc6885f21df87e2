"""Test hostile text in an ablation through a whole run: the report shows it as plain text."""

from __future__ import annotations

import pytest

from tests.bad_inputs.command import Called, Place, WriteAblation, expect

SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"{SCRIPT} {{{{7*7}}}} =HYPERLINK(1) $\\\\input{{x}} </td></table>?"


@pytest.mark.bad_input(29, 48)
def test_a_report_shows_what_its_ablation_says(
    write_ablation: WriteAblation, place: Place, called: Called
) -> None:
    """Use a hostile folder name as well, which no shell may interpret."""
    claim = f'Claim("{HOSTILE}", metric="forward_flops", a="heads=1", b="heads=4", by=0.1, '
    path = write_ablation(
        question=f'"{HOSTILE}"', probes='["flops"]', claim=f'{claim}source="{HOSTILE}")'
    )
    out = ";$(touch x)&`touch x`"
    ended = called("run", str(path), "--executor", "inline", "--seeds", "1", "--out", out)
    expect(ended, 0, [])
    folder = place.here / out / "reports" / "mine"
    page = (folder / "index.html").read_text()
    assert SCRIPT not in page
    assert "&lt;script&gt;alert(1)" in page
    assert "{{7*7}}" in page.replace("&#123;", "{").replace("&#125;", "}")
    assert SCRIPT not in (folder / "report.md").read_text()
    assert [path.name for path in place.here.iterdir()] == [out]
    assert not list(place.path.rglob("x"))
