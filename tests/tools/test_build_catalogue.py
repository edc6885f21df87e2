"""Compare the committed catalogue with the registries; test_every_ablation has the overview."""

from tools.build_catalogue import DOCUMENT, catalogue


def test_the_catalogue_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == catalogue(), "run `make catalogue`"
