"""Make a sweep in which every text is hostile, with the makers of `conftest`."""

from __future__ import annotations

from dataclasses import replace

from bakeoff.reports.results.frame import curves_frame, results_frame
from bakeoff.reports.view import Sweep
from bakeoff.suite.schema import ClaimSpec, DataSet, MixerFacts, Provenance, Registration, Sample
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone

NAMES = (
    "<script>window.pwned = 1</script>",
    "{{7*7}}{% raise %}",
    '=HYPERLINK("http://x")',
    r"$\input{x}$ \end{tabular}",
    "</td></table></svg>",
    "\x1b[31mred",
    "\u202egnp.exe",
    "a|b",
    "`" * 3,
    "n" * 300,
    "--></title>",
    "![x](javascript:alert(1))",
    "長さ Ünïcode ± µ × → 𝔘 🙂",
    "[1] *",
    "% & # _ ^ ~ { }",
    "\u2066left\u2069",
    "<img src=x onerror=window.pwned=1>",
    "x\r\n=1+1",
    "' onclick='window.pwned=1",
    '" onclick="window.pwned=1',
)
SECRET = "CANARY"
_URI = f"http://u:{SECRET}@h/?token={SECRET}"


def sweep(ablation: str = "heads") -> Sweep:
    """Return a sweep with hostile names, reasons, units and settings, and normal numbers."""
    spec = synthetic.BITS
    task, other = NAMES[0], "../../up"
    place = Provenance(
        commit=NAMES[0],
        device=NAMES[4],
        num_threads=1,
        num_cpus=1,
        num_gpus=0,
        versions={NAMES[7]: NAMES[8]},
        conditions={NAMES[0]: NAMES[3]},
    )
    said = synthetic.about(
        ablation=ablation,
        question=NAMES[4],
        note=NAMES[0],
        baseline=NAMES[0],
        variants=NAMES,
        tasks=(task, other),
        probes=("quality",),
        settings={NAMES[0]: NAMES[4]},
        model={NAMES[4]: NAMES[1]},
        regenerate="```\n</code><script>",
        metrics={name: {"quality": (spec,)} for name in (task, other)},
        claim=ClaimSpec(
            statement=NAMES[0],
            metric=spec.name,
            a=NAMES[1],
            b=NAMES[4],
            by=0.0,
            source=f"<img src=x> {NAMES[1]} {_URI}",
            task=task,
            published=NAMES[3],
        ),
        registration=Registration(sha256=NAMES[0], num_pairs_before=2, changes=(NAMES[4], _URI)),
        data_sets={NAMES[4]: DataSet(title="<b>", licence="|", origin=_URI, sha256="<i>")},
        provenances={place.environment_id: place},
        samples={task: {NAMES[0]: _samples()}},
    )
    rows = [
        synthetic.row(
            said,
            name,
            where,
            "quality",
            spec,
            seed=seed,
            value=seed + index / 7.0,
            environment_id=place.environment_id,
        )
        for where in (task, other)
        for index, name in enumerate(NAMES[1:])
        for seed in range(3)
    ]
    rows += [
        synthetic.row(
            said,
            NAMES[0],
            task,
            "quality",
            spec,
            seed=seed,
            status="error",
            reason=f"{text} {_URI}",
        )
        for seed, text in enumerate(NAMES[:3])
    ]
    points = [
        {
            "ablation": ablation,
            "scale": "quick",
            "variant": name,
            "seed": 0,
            "task": task,
            "metric": "<b>$x$",
            "step": step,
            "flops": 1e9 * step,
            "value": 1.0 / step,
            "unit": "<i>",
            "better": "lower",
            "trial_id": name,
            "environment_id": "x",
        }
        for name in NAMES
        for step in (1, 2, 3)
    ]
    return Sweep(said, results_frame(rows), curves_frame(points))


def many(number: int) -> Sweep:
    """Return a sweep of `number` variants with one seed each; the baseline is the last."""
    names = tuple(f"v={index}" for index in range(number))
    said = synthetic.about(
        variants=names,
        baseline=names[-1],
        tasks=("t",),
        probes=("quality",),
        claim=None,
        metrics={"t": {"quality": (synthetic.BITS,)}},
        num_seeds=1,
    )
    rows = [
        synthetic.row(said, name, "t", "quality", synthetic.BITS, value=float(index))
        | ({} if index else {"status": "error", "reason": "r" * 10_000, "value": None})
        for index, name in enumerate(names)
    ]
    return Sweep(said, results_frame(rows), curves_frame([]))


def with_reasons(swept: Sweep) -> Sweep:
    """Return the sweep with every row failed for a distinct reason."""
    reasons = [f"reason {index}" for index in range(len(swept.results))]
    failed = swept.results.assign(status="error", value=float("nan"), reason=reasons)
    return replace(swept, results=failed)


def _samples() -> tuple[Sample, ...]:
    matrix = Sample(
        kind="attention",
        title=NAMES[0],
        text=NAMES[4],
        num_rows=2,
        num_columns=2,
        levels="AECA/w==",
    )
    return matrix, Sample(kind="text", title=NAMES[5], text=f"{NAMES[0]}\n{NAMES[8]} {_URI}")


_MIXERS = {
    "kernel=materialised": "kernel=materialised, x=<script>alert(1)</script>",
    "mixer=lstm": "</td></table>\x1b[31m",
    "mixer=conv": r"=HYPERLINK($\input{x}$)",
    "mixer=dilated_conv": "a|b ```",
    "mixer=performer": "![x](javascript:alert(1)) \u202egnp",
}


def of_mixers_alone() -> Sweep:
    """Return the sweep of mixers alone with hostile labels, formulas, reasons and device."""
    said = mixers_alone.about()
    facts = {_MIXERS.get(name, name): fact for name, fact in said.subjects.items()}
    facts["baseline"] = MixerFacts(
        mixer="<b>attention|", time="n**2 * <i>", maximum_path_length="$"
    )
    names = {"variants": tuple(_MIXERS.get(v, v) for v in said.variants), "subjects": facts}
    place = Provenance(
        commit="c", device="<img src=x>|`", num_threads=2, num_cpus=2, num_gpus=0, versions={}
    )
    about = mixers_alone.about(
        **names, claim=None, provenances={mixers_alone.PLACE.environment_id: place}
    )
    rows = mixers_alone.whole().results.to_dict("records")
    for row in rows:
        row["variant"] = _MIXERS.get(row["variant"], row["variant"])
        row["reason"] = row["reason"] and f"{row['reason']} <script>| http://u:CANARY@h"
    return Sweep(about, results_frame(rows), curves_frame([]))
