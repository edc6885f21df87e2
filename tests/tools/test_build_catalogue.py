"""The committed catalogue is what the registries hold; see test_every_ablation for the overview."""

from tools.build_catalogue import DOCUMENT, catalogue


def test_the_catalogue_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == catalogue(), "run `make catalogue`"
