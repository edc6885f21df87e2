"""Check that heavy modules load only when needed; `make lint` checks imports between folders."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.whole

HEAVY = {
    "torch",
    "ray",
    "mlflow",
    "pandas",
    "numpy",
    "scipy",
    "matplotlib",
    "pyarrow",
    "deepspeed",
    "sacrebleu",
}
PACKAGES = """
import bakeoff; from bakeoff import suite, models, reports, ablations
list(models.MIXERS); models.ModelSpec; models.ModelError
import bakeoff.suite.spec, bakeoff.suite.schema, bakeoff.suite.planning.loader
import bakeoff.suite.sweep.folder_lock
import bakeoff.suite.commands.status, bakeoff.suite.cluster.address
from bakeoff import Ablation, Claim, Model, Scale, vary
"""
HELP = """
sys.argv = ["bakeoff", "--help"]
try: __import__("bakeoff.suite.cli").suite.cli.main()
except SystemExit as end: assert not end.code, end.code
"""
TRIAL = """
from pathlib import Path
from bakeoff.suite.planning.plan import plan
sizes = {"dim": 8, "depth": 1, "heads": 1, "length": 4, "batch": 500, "steps": 2}
others = {"num_evaluations": 1, "task": "parity", "probes": ["quality"], "claim": None}
planned = plan("size", seeds=1, settings={**sizes, **others})
from bakeoff.suite.events import Checkpoints, ExecutorSettings
from bakeoff.suite.execution.inline import InlineExecutor
executor = InlineExecutor(ExecutorSettings(checkpoints=Checkpoints(folder=Path(sys.argv[1]))))
*_, last = executor.execute([(planned.trials[0], planned.resources)])
assert last.result.status == "ok", last.result.reason
"""
PRINTED = "print(*{name.partition('.')[0] for name in sys.modules})"
# After what is printed, since the driver may load more than a trial, but not Ray.
DRIVER = """
import bakeoff.suite.cli, bakeoff.suite.sweep.driver
assert "ray" not in sys.modules, "the command line or the driver imports Ray"
"""


@pytest.mark.parametrize(
    ("code", "after", "unwanted"),
    [
        pytest.param(PACKAGES + HELP, "", HEAVY, id="packages and bakeoff --help"),
        pytest.param(
            TRIAL,
            DRIVER,
            {"sacrebleu", "ray", "mlflow", "pandas", "deepspeed"},
            id="one trial, command line and driver",
        ),
    ],
)
def test_nothing_heavy_is_loaded_before_it_is_needed(
    code: str, after: str, unwanted: set[str], tmp_path: Path
) -> None:
    text = f"import sys\n{code}\n{PRINTED}\n{after}"
    command = [sys.executable, "-c", text, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "bakeoff" in loaded
    assert not loaded & unwanted
