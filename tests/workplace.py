"""Write small ablations into separate files, as a user does; a trial takes 0.1 seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from bakeoff.suite.events import PlannedCode, PlannedModule

ABLATION = '''"""A small question."""
from bakeoff import Ablation, Model, Scale, vary

ABLATION = Ablation(
    question="Does it run?",
    baseline=Model(mixer={mixer!r}, position="none"),
    axes=[vary({axis!r}, {values!r})],
    tasks=["fashion_mnist_patches"],
    probes={probes!r},
    scales={{
        "quick": Scale(
            dim=8, depth=1, length=49, steps={steps}, batch={batch}, num_evaluations=1,
            warmup_steps=min(2, {steps}), learning_rate=1e-2, seeds={seeds},
        )
    }},
)
'''

MIXERS = '''"""Mixers of the user's own, each with a fault that a batch of a hundred brings out."""
import ctypes
import os
import signal
import subprocess
import sys
import time

from bakeoff.models.mixer import Mixer


class Good(Mixer):
    """Planning tries a mixer with a small batch; only training meets the fault."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        if len(x) >= 100:
            self.meet_fault(x)
        return x.mean(dim=1, keepdim=True).expand_as(x)

    def meet_fault(self, x):
        pass


class Slow(Good):
    def meet_fault(self, x):
        time.sleep({pause})


class Raises(Good):
    def meet_fault(self, x):
        print("said before the fault")
        raise RuntimeError("the mixer has a fault")


class NotANumber(Good):
    def forward(self, x, mask=None, context=None, context_mask=None):
        return x * float("nan")


class RunsOut(Good):
    def meet_fault(self, x):
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")


class Leaves(Good):
    def meet_fault(self, x):
        sys.exit("gone")


class Exits(Good):
    def meet_fault(self, x):
        os._exit(3)


class Killed(Good):
    def meet_fault(self, x):
        os.kill(os.getpid(), signal.SIGKILL)


class KilledOnce(Good):
    """It dies in the first process that trains it, and never again."""

    def meet_fault(self, x):
        try:
            os.close(os.open(__file__ + ".died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        os.kill(os.getpid(), signal.SIGKILL)


class KilledThere(Good):
    """It dies on every node but those that a file of this folder names."""

    def meet_fault(self, x):
        import ray

        with open(os.path.join(os.path.dirname(__file__), "good_nodes")) as file:
            if ray.get_runtime_context().get_node_id() not in file.read():
                os.kill(os.getpid(), signal.SIGKILL)


class Hangs(Good):
    def meet_fault(self, x):
        while True:
            try:
                time.sleep(0.01)
            except Exception:
                continue


class HangsInC(Good):
    """Holds the interpreter's lock, and hears of no signal; with a child that would outlive it."""

    def meet_fault(self, x):
        subprocess.Popen(["sleep", "604742"])
        signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 60))
        ctypes.PyDLL(None).sleep(600)


class Stops(Good):
    def meet_fault(self, x):
        os.kill(os.getpid(), signal.SIGSTOP)
'''


def code_in(folder: Path) -> PlannedCode:
    """Return the modules in a folder in the form that planned trials get."""
    files = folder.glob("*.py")
    modules = {f.stem: PlannedModule(file=str(f), source=f.read_text()) for f in files}
    return PlannedCode(modules=modules, folders=(str(folder),))


@dataclass(frozen=True)
class Workplace:
    """A folder with a user's own files and the output folder `out`."""

    path: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def out(self) -> Path:
        return self.path / "out"

    def ablation(
        self,
        name: str = "small",
        *,
        mixer: str = "fnet",
        axis: str = "learning_rate",
        values: Sequence[object] = (1e-3, 1e-2),
        probes: Sequence[str] = ("quality", "parameters"),
        steps: int = 6,
        batch: int = 100,
        seeds: int = 2,
    ) -> str:
        """Write an ablation file and return its path; `mixers` writes its user mixers."""
        file = self.path / f"{name}.py"
        file.write_text(
            ABLATION.format(
                mixer=mixer,
                axis=axis,
                values=list(values),
                probes=list(probes),
                steps=steps,
                batch=batch,
                seeds=seeds,
            )
        )
        return str(file)

    def mixers(self, module: str, pause: float = 0.0) -> str:
        """Write the faulty mixers into a module of that name and return the name.

        Every test needs another name, because this process caches imported modules.
        """
        (self.path / f"{module}.py").write_text(MIXERS.replace("{pause}", str(pause)))
        return module

    def command(self, *arguments: str) -> list[str]:
        """Return a `bakeoff` command line that writes to `out` in this folder."""
        return [str(Path(sys.executable).with_name("bakeoff")), *arguments, "--out", str(self.out)]

    def start(
        self, *arguments: str, said: int | IO[str] = subprocess.PIPE
    ) -> subprocess.Popen[str]:
        """Start `bakeoff` in a new session, with its output in `said`."""
        return subprocess.Popen(
            self.command(*arguments),
            env=self._environment(),
            text=True,
            start_new_session=True,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=self.path,
        )

    def bakeoff(self, *arguments: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run `bakeoff` to its end."""
        return subprocess.run(
            self.command(*arguments),
            env=self._environment(),
            text=True,
            timeout=timeout,
            capture_output=True,
            cwd=self.path,
            check=False,
        )

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}


def is_alive(pid: int) -> bool:
    """Return True if the process runs; a zombie that awaits its parent does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
