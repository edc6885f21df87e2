"""Download public data sets for `bakeoff data fetch`, check their digests and unpack them.

A download gets the name that tasks look for once it is complete and has the recorded digest.
"""

from __future__ import annotations

import lzma
import os
import shutil
import stat
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import pooch
from filelock import FileLock, Timeout
from rich.console import Console
from rich.progress import DownloadColumn, Progress

from suite.errors import REFUSED, UnavailableError, one_line, unknown_name
from suite.tasks.task import DataSource, TaskError

_BLOCK_BYTES = 1 << 20
_SECONDS_WITHOUT_A_BYTE = 60.0
_MAX_MEMBERS = 2_000_000
# No compression on the way: an archive must arrive as it was published.
_HEADERS = {"User-Agent": "bakeoff", "Accept-Encoding": "identity"}
_DAMAGES = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError,
    RuntimeError,  # of an encrypted zip, or one that is packed in an unknown way
)  # fmt: skip


class FetchUnavailable(UnavailableError):
    """The network, the server or the disk does not give what is needed: one sentence."""


class RefusedArchive(TaskError):
    """An archive with a member that would do harm."""

    exit_code = REFUSED


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """A file to fetch, and others that belong to it.

    Attributes:
        name: What `bakeoff data fetch` calls it, and the folder that it is put into.
        title: In a few words.
        licence: As its publishers state it.
        url: Of the file.
        num_bytes: Of the file; None where nobody recorded it.
        sha256: Of the file, as others recorded it; empty where nobody did: then the file is
            fetched all the same, and said to be unproven.
        is_unpacked: Whether its members are put beside it; tasks read the archive itself.
        most_bytes: Bound on the file, and on all of its members together.
        beside: Further files of the set, each under its name.
    """

    name: str
    title: str
    licence: str
    url: str
    num_bytes: int | None
    sha256: str
    is_unpacked: bool
    most_bytes: int
    beside: tuple[PublicSet, ...] = ()

    @property
    def files(self) -> tuple[PublicSet, ...]:
        """All of them, each as a set of one."""
        return (replace(self, beside=()), *self.beside)

    @property
    def file(self) -> str:
        """Where it stands in the folder of fetched data."""
        return f"{self.name}/{self.url.rpartition('/')[2]}"


def _with_files(first: PublicSet, *others: tuple[str, int, str]) -> PublicSet:
    """The set with further files of the same folder: name, bytes and SHA-256 of each."""
    folder = first.url.rpartition("/")[0]
    beside = tuple(
        replace(first, url=f"{folder}/{file}", num_bytes=num_bytes, sha256=sha256)
        for file, num_bytes, sha256 in others
    )
    return replace(first, beside=beside)


_MULTI30K = _with_files(
    PublicSet(
        name="multi30k",
        title="Multi30k, 31,014 captions of photos in English and German (Elliott et al. 2016)",
        licence="as Flickr30k by its publishers, hockenmaier.cs.illinois.edu/DenotationGraph/data",
        url=(
            "https://raw.githubusercontent.com/neychev/small_DL_repo/master/datasets/Multi30k/"
            "training.tar.gz"
        ),
        num_bytes=1_207_136,
        sha256="20140d013d05dd9a72dfde46478663ba05737ce983f478f960c1123c6671be5e",
        is_unpacked=False,
        most_bytes=10_000_000,
    ),
    (
        "validation.tar.gz", 46_329,
        "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
    ),
    (
        "mmt16_task1_test.tar.gz", 67_079,
        "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
    ),
)  # fmt: skip

_FASHION_MNIST = _with_files(
    PublicSet(
        name="fashion_mnist_full",
        title="Fashion-MNIST, all 60,000 training and 10,000 test images (Xiao et al. 2017)",
        licence="MIT",
        url=(
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/"
            "b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/train-images-idx3-ubyte.gz"
        ),
        num_bytes=26_421_880,
        sha256="3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        is_unpacked=False,
        most_bytes=50_000_000,
    ),
    (
        "train-labels-idx1-ubyte.gz", 29_515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    (
        "t10k-images-idx3-ubyte.gz", 4_422_102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    (
        "t10k-labels-idx1-ubyte.gz", 5_148,
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)  # fmt: skip


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
        _MULTI30K,
        _FASHION_MNIST,
        PublicSet(
            name="cifar10",
            title="CIFAR-10, 60,000 photos of 32 x 32 pixels in ten classes (Krizhevsky 2009)",
            licence="none is stated; its publishers ask to be cited",
            url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            num_bytes=170_052_171,
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            is_unpacked=False,
            most_bytes=400_000_000,
        ),
        PublicSet(
            name="tiny_imagenet",
            title="Tiny ImageNet, 110,000 photos of 64 x 64 pixels in 200 classes (CS231n)",
            licence="for research and teaching that is not commercial, as ImageNet",
            url="https://cs231n.stanford.edu/tiny-imagenet-200.zip",
            num_bytes=248_100_043,
            sha256="6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821",
            is_unpacked=False,
            most_bytes=1_000_000_000,
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
    first, *others = map(_data_source, public_set(name).files)
    return replace(first, beside=tuple(others))


def _data_source(public: PublicSet) -> DataSource:
    assert public.sha256, "a task reads proven data only"
    return DataSource(
        name=public.name, title=public.title, licence=public.licence, origin=public.url,
        sha256=public.sha256, file=public.file, is_fetched=True,
    )  # fmt: skip


def fetch(public: PublicSet, folder: Path, say: Callable[[str], None] = print) -> Path:
    """Bring the set into `folder`; a file that is there already and right is not asked for again.

    Returns:
        The path of its file, of several the first.

    Raises:
        TaskError: if a file of that name is there and is another one, or what came is.
        FetchUnavailable: if it cannot be downloaded or kept.
    """
    path, *_ = [_fetch_file(each, folder, say) for each in public.files]
    return path


def _fetch_file(public: PublicSet, folder: Path, say: Callable[[str], None]) -> Path:
    path = folder / public.file
    if os.path.exists(path):  # False, too, for a name that is too long to be one
        _refuse_altered(public, path, "move it away and fetch again")
        say(f"{public.name}: {path} is there already")
    else:
        _download(public, path)
        proven = "as published" if public.sha256 else "nobody recorded what it should be"
        say(f"{public.name}: {path}, SHA-256 {pooch.file_hash(str(path))}, {proven}")
    if public.is_unpacked and not (unpacked := folder / public.name / "unpacked").exists():
        unpack(path, unpacked, most_bytes=public.most_bytes)
        say(f"{public.name}: unpacked into {unpacked}")
    return path


def _refuse_altered(public: PublicSet, path: Path, remedy: str) -> None:
    found = pooch.file_hash(str(path))
    if public.sha256 and found != public.sha256:
        raise TaskError(
            f"{path} is not the published {public.name}: SHA-256 is {found}, expected"
            f" {public.sha256}; {remedy}"
        )


def _download(public: PublicSet, path: Path) -> None:
    """Download to a file of another name, check its digest, then rename it."""
    partial = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_full_disk(public, path.parent)
        with FileLock(partial, blocking=False), ExitStack() as at_end:
            at_end.callback(partial.unlink, missing_ok=True)
            _downloader(public, at_end)(public.url, str(partial), None)
            _refuse_altered(public, partial, "nothing was kept")
            os.replace(partial, path)
    except Timeout:
        raise FetchUnavailable(
            f"another process is downloading {public.name} to {partial}; wait for its end"
        ) from None
    except OSError as error:  # the network's errors are OSErrors too
        raise FetchUnavailable(
            f"{public.name} cannot be fetched from {public.url} to {path}: "
            f"{one_line(error.strerror or str(error))}; nothing was kept"
        ) from error


def _refuse_full_disk(public: PublicSet, folder: Path) -> None:
    needed, free = public.num_bytes or 0, shutil.disk_usage(folder).free
    if needed > free:
        raise FetchUnavailable(
            f"{public.name} needs {needed} bytes at {folder}, where {free} are free"
        )


def _downloader(public: PublicSet, at_end: ExitStack) -> pooch.HTTPDownloader:
    """One that shows its progress and closes its connection, which pooch leaves open."""
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), DownloadColumn())
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    received = _Received(public, at_end.enter_context(bar))

    def close_at_end(response: Any, *_: object, **__: object) -> None:
        at_end.callback(response.close)

    return pooch.HTTPDownloader(
        progressbar=received, chunk_size=_BLOCK_BYTES, timeout=_SECONDS_WITHOUT_A_BYTE,
        headers=_HEADERS, hooks={"response": close_at_end},
    )  # fmt: skip


class _Received:
    """Shows how much has come, and stops a server that sends too much. As pooch calls it."""

    total = 0  # bytes that the server announces; set by pooch

    def __init__(self, public: PublicSet, bar: Progress) -> None:
        self.public, self.bar = public, bar
        self.task = bar.add_task(public.name, total=public.num_bytes)
        self.num_bytes = 0

    def update(self, num_bytes: int) -> None:
        """Count one more block, of at most so many bytes."""
        self.num_bytes += num_bytes
        limit = self.public.num_bytes or self.public.most_bytes
        if max(self.total, self.num_bytes - _BLOCK_BYTES) > limit:
            raise FetchUnavailable(
                f"{self.public.url} gives more than the {limit} bytes of {self.public.name}; "
                "nothing was kept"
            )
        self.bar.update(self.task, completed=self.num_bytes, total=self.total or None)

    def reset(self) -> None:
        """All has come: pooch now counts the whole once."""
        self.num_bytes = 0

    def close(self) -> None:
        """The bar closes itself."""


def unpack(archive: Path, target: Path, *, most_bytes: int) -> None:
    """Make the folder `target` of the members of a zip or tar archive, all of them or none.

    Raises:
        TaskError: if the file is not an archive, or is damaged; then there is no such folder.
        RefusedArchive: for a member that would stand outside of the folder, a link or a device,
            and for more bytes or members than expected.
    """
    beside = tempfile.mkdtemp(prefix=target.name + ".", dir=target.parent)
    try:
        (_unzip if zipfile.is_zipfile(archive) else _untar)(archive, beside, most_bytes)
        os.replace(beside, target)
    except _DAMAGES as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{archive} cannot be unpacked ({one_line(str(error))})") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _unzip(archive: Path, folder: str, most_bytes: int) -> None:
    check = _MemberCheck(archive, most_bytes)
    with zipfile.ZipFile(archive) as opened:
        for member in opened.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            is_plain = kind in (0, stat.S_IFREG, stat.S_IFDIR)
            check.refuse(member.filename, member.file_size, is_plain=is_plain)
            opened.extract(member, folder)


def _untar(archive: Path, folder: str, most_bytes: int) -> None:
    check = _MemberCheck(archive, most_bytes)
    with tarfile.open(archive, "r|*") as opened:  # from its start to its end, however compressed
        for member in opened:
            check.refuse(member.name, member.size, is_plain=member.isfile() or member.isdir())
            opened.extract(member, folder, filter="data")


@dataclass
class _MemberCheck:
    """Refuses members that would do harm. Extraction writes no more bytes than a header says."""

    archive: Path
    bytes_left: int
    members_left: int = _MAX_MEMBERS

    def refuse(self, name: str, num_bytes: int, *, is_plain: bool) -> None:
        """Check the next member.

        Raises:
            RefusedArchive: with its name.
        """
        path = PurePosixPath(name)
        self.bytes_left -= num_bytes
        self.members_left -= 1
        if not is_plain:
            wrong = f"member {one_line(name)!r} is a link or a device, not a file"
        elif path.is_absolute() or ".." in path.parts or "\\" in name or not path.parts:
            wrong = f"member {one_line(name)!r} would stand outside of its folder"
        elif self.bytes_left < 0:
            wrong = "its members are larger than they should be"
        elif self.members_left < 0:
            wrong = f"more than {_MAX_MEMBERS} members"
        else:
            return
        raise RefusedArchive(f"{self.archive}: {wrong}")
