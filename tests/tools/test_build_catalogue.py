"""The committed catalogue is what the registries say, and the overview what the ablations plan."""

import json

from suite.commands.list import overview
from tools.build_catalogue import DOCUMENT, SIZES, catalogue


def test_the_catalogue_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == catalogue(), "run `make catalogue`"


def test_the_overview_of_the_ablations_is_up_to_date() -> None:
    assert json.loads(SIZES.read_text()) == overview(), "run `make catalogue`"
