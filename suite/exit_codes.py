"""Which exit code does an error get? By its class's name, so that nothing heavy is imported."""

from __future__ import annotations

DONE = 0
USAGE = 2  # wrong usage or specification, refused before anything ran
REFUSED = 3  # refused for safety
UNAVAILABLE = 4  # something outside is unavailable
FAILED = 5  # ended, but a trial failed, some were left, or `verify` found a difference
INTERRUPTED = 130  # resumable

_OF = {
    "SpecError": USAGE,
    "TaskError": USAGE,
    "ModelError": USAGE,
    "FrameError": USAGE,
    "PublishedError": USAGE,
    "NotAFolder": USAGE,
    "BadUri": USAGE,
    "BadAddress": USAGE,
    "RefusedUri": REFUSED,
    "RefusedAddress": REFUSED,
    "RefusedArchive": REFUSED,
    "FetchUnavailable": UNAVAILABLE,
    "FolderUnavailable": UNAVAILABLE,
    "JournalError": UNAVAILABLE,
    "StoreUnavailable": UNAVAILABLE,
    "Unavailable": UNAVAILABLE,
}


def exit_code_of(error: Exception) -> int | None:
    """The exit code of an error that is the user's or the world's; None for a fault of ours."""
    return next((_OF[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _OF), None)
