"""The excerpt is the one announced, and whole articles are held out."""

import math

import numpy as np
import pytest
import torch

from suite.tasks.task import Split
from suite.tasks.wikipedia_bytes import WikipediaBytes, read_articles

corpus = WikipediaBytes.read
SPLITS: tuple[Split, ...] = ("validation", "test")
HELD_OUT = {
    "validation": [
        "Amateur astronomy",
        "Actinopterygii",
        "Animation",
        "Atlantic Ocean",
        "Aardvark",
        "Achilles",
        "Austroasiatic languages",
        "Alkane",
    ],
    "test": [
        "Andorra",
        "Analysis of variance",
        "Angolan Armed Forces",
        "A",
        "Astronaut",
        "List of Atlas Shrugged characters",
        "American National Standards Institute",
        "Android (robot)",
        "Adobe",
        "Albert Sidney Johnston",
        "Albedo",
        "Abacus",
        "Assistive technology",
        "Aardwolf",
        "Aikido",
        "Economy of Angola",
    ],
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
    """Another choice is another task: it must raise the version."""
    titles = {xml: title.decode() for title, xml in read_articles().items()}
    found = {s: [titles[article.tobytes()] for article in corpus().held_out[s]] for s in SPLITS}
    assert found == HELD_OUT


def test_the_three_splits_are_all_the_articles() -> None:
    held_out = [article.tobytes() for split in SPLITS for article in corpus().held_out[split]]
    training = b"".join(xml for xml in read_articles().values() if xml not in held_out)
    assert len(held_out) == len(set(held_out)) == 24
    assert corpus().training.tobytes() == training


def test_the_held_out_splits_have_the_documented_sizes() -> None:
    task = WikipediaBytes(256)
    sizes = {s: sum(batch.targets.numel() for batch in task.held_out(s, 64)) for s in SPLITS}
    assert sizes == {"validation": 65_536, "test": 131_072}


def test_windows_are_bytes_that_follow_each_other() -> None:
    batch = next(WikipediaBytes(128).held_out("test", 4))
    text = bytes(batch.inputs.flatten().tolist())
    assert text == corpus().held_out["test"][0][:512].tobytes()
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])


def test_byte_frequencies_alone_need_about_5_bits() -> None:
    """The floor that any model that learns passes first."""
    counts = np.bincount(corpus().training, minlength=256) + 1
    logits = torch.from_numpy(counts / counts.sum()).log().float()
    task = WikipediaBytes(512)
    scores = [
        task.score(logits.expand(*batch.inputs.shape, 256), batch)
        for batch in task.held_out("test", 32)
    ]
    bits = sum(total for total, _ in scores) / sum(count for _, count in scores)
    assert bits == pytest.approx(5.0, abs=0.3)
    assert bits < math.log2(256)


def test_a_person_reads_one_character_a_byte() -> None:
    assert WikipediaBytes(4).text(list("aé\n".encode())) == "a\ufffd\ufffd\n"
