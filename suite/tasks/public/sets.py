"""The public data sets of `bakeoff data fetch`: their URLs, licences and digests.

All digests were recorded by others. This project has not computed any of them from the files that a
server happened to send.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bakeoff.suite.errors import unknown_name
from bakeoff.suite.tasks.task import DataSource, TaskError


@dataclass(frozen=True, kw_only=True)
class PublicSet:
    """A file to download, and others that belong to it.

    Attributes:
        name: The name for `bakeoff data fetch`, and of the folder that holds the files.
        title: A short description.
        licence: The licence as its publishers state it.
        url: The URL of the file.
        num_bytes: The size of the file, or None if nobody recorded it.
        sha256: The SHA-256 of the file as others recorded it; empty if nobody did.
        is_unpacked: Whether its members are unpacked next to it; tasks read the archive itself.
        most_bytes: The bound on the file, and on all of its members together.
        beside: Further files of the set, each under its name.
        md5: The MD5 of the file if others recorded only that. A file with neither digest is
            downloaded all the same, and reported as unverified.
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
    md5: str = ""

    @property
    def files(self) -> tuple[PublicSet, ...]:
        """All files of the set, each as a set with one file."""
        return (replace(self, beside=()), *self.beside)

    @property
    def file(self) -> str:
        """The path of the file in the folder of downloaded data."""
        return f"{self.name}/{self.url.rpartition('/')[2]}"


def _with_files(first: PublicSet, *others: tuple[str, int, str]) -> PublicSet:
    """Return the set with further files of the same folder: name, bytes and SHA-256 of each."""
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
        "validation.tar.gz",
        46_329,
        "a7aa20e9ebd5ba5adce7909498b94410996040857154dab029851af3a866da8c",
    ),
    (
        "mmt16_task1_test.tar.gz",
        67_079,
        "6d1ca1dba99e2c5dd54cae1226ff11c2551e6ce63527ebb072a1f70f72a5cd36",
    ),
)

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
        "train-labels-idx1-ubyte.gz",
        29_515,
        "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
    ),
    (
        "t10k-images-idx3-ubyte.gz",
        4_422_102,
        "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
    ),
    (
        "t10k-labels-idx1-ubyte.gz",
        5_148,
        "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    ),
)

_FLICKR8K_TEXT = PublicSet(
    name="flickr8k",
    title="Flickr8k, 8,000 photos with five captions each (Hodosh et al. 2013)",
    licence=(
        "for research and education that is not commercial, by its publishers, who do not own"
        " the photos"
    ),
    url="https://github.com/jbrownlee/Datasets/releases/download/Flickr8k/Flickr8k_text.zip",
    num_bytes=None,
    sha256="",
    md5="bf6c1abcb8e4a833b7f922104de18627",  # from torchvision for R, as is the next one
    is_unpacked=False,
    most_bytes=50_000_000,
)
_FLICKR8K = replace(
    _FLICKR8K_TEXT,
    beside=(
        replace(
            _FLICKR8K_TEXT,
            url=_FLICKR8K_TEXT.url.replace("Flickr8k_text", "Flickr8k_Dataset"),
            md5="f18a1e2920de5bd84dae7cf08ec78978",
            most_bytes=2_000_000_000,
        ),
    ),
)

_COCO_ANNOTATIONS = PublicSet(
    name="coco",
    title="COCO, the 5,000 photos of val2017 with five captions each (Chen et al. 2015)",
    licence="captions: CC BY 4.0; photos: each its own, under the terms of use of Flickr",
    # The digests are from TensorFlow Datasets 4 (url_checksums/coco.txt); the host has no HTTPS.
    url="http://images.cocodataset.org/annotations/annotations_trainval2017.zip",
    num_bytes=252_907_541,
    sha256="113a836d90195ee1f884e704da6304dfaaecff1f023f49b6ca93c4aaae470268",
    is_unpacked=False,
    most_bytes=500_000_000,
)
_COCO = replace(
    _COCO_ANNOTATIONS,
    beside=(
        replace(
            _COCO_ANNOTATIONS,
            url="http://images.cocodataset.org/zips/val2017.zip",
            num_bytes=815_585_330,
            sha256="4f7e2ccb2866ec5041993c9cf2a952bbed69647b115d0f74da7ce8f4bef82f05",
            most_bytes=1_000_000_000,
        ),
    ),
)


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
        _FLICKR8K,
        _COCO,
    )
}


def public_set(name: str) -> PublicSet:
    """Return the set of that name.

    Raises:
        TaskError: if no set has that name; the message has the nearest names.
    """
    if name not in PUBLIC_SETS:
        raise TaskError(unknown_name("public data set", name, PUBLIC_SETS))
    return PUBLIC_SETS[name]


def source_of(name: str) -> DataSource:
    """Return the set as the data source of a task, for which its digest must be known."""
    first, *others = map(_data_source, public_set(name).files)
    return replace(first, beside=tuple(others))


def _data_source(public: PublicSet) -> DataSource:
    assert public.sha256 or public.md5, "a task reads proven data only"
    return DataSource(
        name=public.name,
        title=public.title,
        licence=public.licence,
        origin=public.url,
        sha256=public.sha256,
        file=public.file,
        is_fetched=True,
        md5=public.md5,
    )
