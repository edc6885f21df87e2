"""Which public data sets does `bakeoff data fetch` bring, from where, and how are they known?

Digests are those that others recorded for the same files; a set without one is brought all the
same, and said to be unproven.
"""

from __future__ import annotations

from dataclasses import dataclass

from suite.errors import unknown_name
from suite.tasks.task import DataSource, TaskError


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """One file to fetch.

    Attributes:
        name: What `bakeoff data fetch` calls it, and the folder that it is put into.
        title: In a few words.
        licence: As its publishers state it.
        url: Of the file.
        num_bytes: Of the file; None where nobody recorded it.
        sha256: Of the file; empty where nobody recorded it.
        is_unpacked: Whether its members are put beside it; tasks read the archive itself.
        most_bytes: Bound on the file, and on all of its members together.
    """

    name: str
    title: str
    licence: str
    url: str
    num_bytes: int | None
    sha256: str
    is_unpacked: bool
    most_bytes: int

    @property
    def file(self) -> str:
        """Where it stands in the folder of fetched data."""
        return f"{self.name}/{self.url.rpartition('/')[2]}"


PUBLIC_SETS: dict[str, PublicSet] = {
    known.name: known
    for known in (
        PublicSet(
            name="enwik8",
            title="enwik8, the first 100,000,000 bytes of the English Wikipedia of 2006-03-03",
            licence="CC BY-SA 3.0 and GFDL",
            url="https://mattmahoney.net/dc/enwik8.zip",
            num_bytes=36_445_475,
            sha256="547994d9980ebed1288380d652999f38a14fe291a6247c157c3d33d4932534bc",
            is_unpacked=False,
            most_bytes=200_000_000,
        ),
        PublicSet(
            name="wikitext-103",
            title="WikiText-103, raw: good and featured articles of the English Wikipedia",
            licence="CC BY-SA 3.0",
            url="https://wikitext.smerity.com/wikitext-103-raw-v1.zip",
            num_bytes=191_984_949,
            sha256="91c00ae287f0d699e18605c84afc9e45c192bc6b7797ff8837e5474655a33794",
            is_unpacked=True,
            most_bytes=1_000_000_000,
        ),
        PublicSet(
            name="imdb",
            title="IMDb, 50,000 film reviews with their sentiment (Maas et al. 2011)",
            licence="for research, by its publishers' request to cite; no licence is stated",
            url="https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            num_bytes=84_125_825,
            sha256="c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
            is_unpacked=False,
            most_bytes=1_000_000_000,
        ),
        PublicSet(
            name="lra",
            title="the release of the Long Range Arena: ListOps, retrieval, Pathfinder",
            licence="Apache-2.0; each set in it keeps its own",
            url="https://storage.googleapis.com/long-range-arena/lra_release.gz",
            num_bytes=None,
            sha256="",
            is_unpacked=True,
            most_bytes=40_000_000_000,
        ),
    )
}


def public_set(name: str) -> PublicSet:
    """The set of that name.

    Raises:
        TaskError: with the nearest names.
    """
    if name not in PUBLIC_SETS:
        raise TaskError(unknown_name("public data set", name, PUBLIC_SETS))
    return PUBLIC_SETS[name]


def source_of(name: str) -> DataSource:
    """The set as the data source of a task, which needs its digest to be known."""
    public = public_set(name)
    assert public.sha256, "a task reads proven data only"
    return DataSource(
        name=public.name, title=public.title, licence=public.licence, origin=public.url,
        sha256=public.sha256, file=public.file, is_fetched=True,
    )  # fmt: skip
