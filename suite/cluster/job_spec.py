"""Specify the Ray job of a submitted sweep: its id, its command and its metadata.

The id is a hash of the sweep and of the code that is sent, so that submitting both twice gives one
job. All users of the cluster can read all of this.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bakeoff.models.model_spec import content_hash
from bakeoff.suite.journal.status_message import STATUS_LINES
from bakeoff.suite.provenance import installed_version
from bakeoff.suite.spec import SpecError
from bakeoff.suite.text import recorded_name, redact
from bakeoff.suite.tracking.location import RefusedUri, check_tracking_uri, sqlite_path

PREFIX = "bakeoff-"
STARTER = "start_bakeoff.sh"
_LONGEST_NAMES = 60
_ATTEMPT = re.compile(r"(?P<first>.+-[0-9a-f]{12})(?:-(?P<attempt>[1-9][0-9]*))?")

STARTER_SCRIPT = f"""\
# Starts bakeoff with the Python that this Ray runs on, which need not be on the PATH: the daemon
# of the node, the parent of the job's supervisor, has it on its command line.
daemon=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$PPID/status" 2>/dev/null)
found=$(tr '\\000' '\\n' 2>/dev/null <"/proc/$daemon/cmdline" |
    sed -n 's/^--python_worker_command=\\([^ ]*\\) .*/\\1/p')
export {STATUS_LINES}=1
for python in "$found" python3 python; do
    if [ -n "$python" ] && "$python" -c 'import importlib.util as u, sys
sys.exit(u.find_spec("ray") is None)' 2>/dev/null; then
        exec "$python" -m bakeoff.suite.cli "$@"
    fi
done
echo 'bakeoff: no Python with Ray was found on this node.' >&2
exit 4
"""


@dataclass(frozen=True, kw_only=True)
class JobSpec:
    """A sweep to submit.

    Attributes:
        names: Names of the ablations, for `bakeoff run` in the bundle.
        scale: The name of the scale.
        seeds: Number of seeds, instead of the scale's.
        out: The output folder on the head; a relative one is in the home folder of the head's user.
        tracking_uri: The MLflow store; by default an SQLite file in the output folder.
        trial_ids: The ids of all trials, sorted.
        options: Further options of `bakeoff run`; their effect on the trials is part of
            `trial_ids`.
        code: A hash of everything that is sent, because two users may have files of the same names.
    """

    names: tuple[str, ...]
    scale: str
    seeds: int | None
    out: Path
    tracking_uri: str | None
    trial_ids: tuple[str, ...]
    options: tuple[str, ...] = ()
    code: str = ""

    @property
    def first_id(self) -> str:
        """The id of the first attempt."""
        stems = "-".join(map(recorded_name, self.names))[:_LONGEST_NAMES]
        content = [
            sorted(self.names),
            self.scale,
            self.trial_ids,
            str(self.out),
            self.tracking_uri,
            self.code,
        ]
        return f"{PREFIX}{stems}-{self.scale}-{content_hash(content)[:12]}"

    @property
    def place(self) -> str:
        """The output folder, for people."""
        return str(self.out) if self.out.is_absolute() else f"~/{self.out}"

    @property
    def command(self) -> str:
        """The shell command for the head, in the folder of the user's files."""
        run = ["run", *self.names, "--scale", self.scale]
        run += ["--seeds", str(self.seeds)] if self.seeds is not None else []
        run += ["--tracking-uri", self.tracking_uri] if self.tracking_uri else []
        run += self.options
        out = shlex.quote(str(self.out))
        out = out if self.out.is_absolute() else f'"$HOME"/{out}'
        return f"exec sh {STARTER} {shlex.join(run)} --out {out} --address auto --wait"

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the job, all strings."""
        return {
            "bakeoff": installed_version("bakeoff") or "unknown",
            "names": " ".join(self.names),
            "scale": self.scale,
            "out": self.place,
            "num_trials": str(len(self.trial_ids)),
        }


def folder_on_head(out: Path) -> Path:
    """Return the folder on the head; ``~`` and relative paths refer to the home folder.

    Raises:
        SpecError: For the home folder itself, the root, and paths that lead out of either.
    """
    found = Path(*out.parts[1:]) if out.parts[:1] == ("~",) else out
    if found in (Path(), Path("/")):
        raise SpecError(f"--out {out}: give a folder of its own, not the home folder or the root.")
    if ".." in found.parts or found.parts[0].startswith("~") or not str(found).isprintable():
        raise SpecError(
            f"--out {str(out)!r}: give a plain path on the head, without '..', the home folder of "
            "another user, or characters that cannot be printed."
        )
    return found


def split_id(submission_id: str) -> tuple[str, int]:
    """Return the id of the first attempt, and the number of this one, from 1."""
    found = _ATTEMPT.fullmatch(submission_id)
    return (found["first"], int(found["attempt"] or 1)) if found else (submission_id, 1)


def public_uri(uri: str) -> str:
    """Return the address of the store if it may be public: all users of the cluster can read it.

    Raises:
        BadUri: If it is not the address of a store.
        RefusedUri: If it contains a password, or is refused for another reason.
        SpecError: If it names a file relative to a folder that the head does not have.
    """
    checked = check_tracking_uri(uri)
    if "@" in checked or redact(checked) != checked or urlsplit(checked).password:
        raise RefusedUri(
            f"--tracking-uri {redact(checked)}: the command of a job can be read by all users "
            "of the cluster, so it must not hold a user or password; set MLFLOW_TRACKING_USERNAME "
            "and MLFLOW_TRACKING_PASSWORD in the environment of the head instead."
        )
    file = sqlite_path(checked)
    if file is not None and not file.is_absolute():
        raise SpecError(
            f"--tracking-uri {checked}: the path is relative to a folder that is deleted with the "
            "job; give an absolute path on the head, as sqlite:////home/me/mlflow.db."
        )
    return checked
