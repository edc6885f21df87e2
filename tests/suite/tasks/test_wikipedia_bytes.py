"""Test that the excerpt is the announced one and that whole articles are held out."""

from bakeoff.suite.tasks.task import Split
from bakeoff.suite.tasks.wikipedia_bytes import WikipediaBytes, read_articles

corpus = WikipediaBytes.read
SPLITS: tuple[Split, ...] = ("validation", "test")
HELD_OUT = {
    "validation": (
        "Amateur astronomy, Actinopterygii, Animation, Atlantic Ocean, Aardvark, Achilles, "
        "Austroasiatic languages, Alkane"
    ),
    "test": (
        "Andorra, Analysis of variance, Angolan Armed Forces, A, Astronaut, "
        "List of Atlas Shrugged characters, American National Standards Institute, "
        "Android (robot), Adobe, Albert Sidney Johnston, Albedo, Abacus, "
        "Assistive technology, Aardwolf, Aikido, Economy of Angola"
    ),
}


def test_the_counts_are_the_recorded_ones() -> None:
    articles = read_articles()
    assert len(articles) == 106
    assert sum(map(len, articles.values())) == 6_021_043
    assert next(iter(articles)) == b"Anarchism"


def test_no_redirect_and_only_whole_pages() -> None:
    for xml in read_articles().values():
        assert xml.startswith(b"  <page>\n    <title>")
        assert xml.endswith(b"  </page>\n")
        assert b"<redirect " not in xml
        assert xml.count(b"<page>") == 1


def test_the_held_out_articles_are_the_recorded_ones() -> None:
    """Another selection is another task and must raise the version."""
    titles = {xml: title.decode() for title, xml in read_articles().items()}
    found = {s: [titles[article.tobytes()] for article in corpus().held_out[s]] for s in SPLITS}
    assert {split: ", ".join(names) for split, names in found.items()} == HELD_OUT


def test_the_three_splits_are_all_the_articles() -> None:
    held_out = [article.tobytes() for split in SPLITS for article in corpus().held_out[split]]
    training = b"".join(xml for xml in read_articles().values() if xml not in held_out)
    assert len(held_out) == len(set(held_out)) == 24
    assert corpus().training.tobytes() == training


def test_the_held_out_splits_have_the_documented_sizes() -> None:
    task = WikipediaBytes(256)
    sizes = {s: sum(batch.targets.numel() for batch in task.held_out(s, 64)) for s in SPLITS}
    assert sizes == {"validation": 65_536, "test": 131_072}


def test_a_person_reads_one_character_a_byte() -> None:
    assert WikipediaBytes(4).text(list("aé\n".encode())) == "a\ufffd\ufffd\n"
