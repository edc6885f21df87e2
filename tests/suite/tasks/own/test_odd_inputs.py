"""Give texts and tables that are broken or odd: one sentence each, or a stated treatment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from bakeoff.suite.spec import SpecError
from bakeoff.suite.spec.own_data import OwnData, Table, TextFile
from bakeoff.suite.tasks.registry import build_task, task_class
from bakeoff.suite.tasks.task import TaskError

TEXT = {"text": "text", "label": "label"}
NUMBERS = {"features": ["a", "b"], "label": "label"}
HEADER = "text,label\n"
FINE = "".join(f"text number {i},{'yn'[i % 2]}\n" for i in range(120))
PLAIN = [line.split(",") for line in FINE.splitlines()]
NUMBER_HEADER = "a,b,label\n"
FINE_NUMBERS = "".join(f"{i},{i * i % 31}.5,{'yn'[i % 2]}\n" for i in range(120))
LINES = [{"text": f"text number {i}", "label": i % 2, "a": i, "b": i * 0.5} for i in range(120)]


@pytest.fixture(autouse=True)
def prepared_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "data"))


def as_lines(*rows: object) -> str:
    return "".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows)


def half_written(tmp_path: Path) -> list[str]:
    """Return what an interrupted or refused preparation must not leave."""
    folders = [path for path in (tmp_path / "data").glob("own/*") if path.is_dir()]
    return [path.name for path in folders if not (path / "facts.json").exists()]


def refused(tmp_path: Path, data: OwnData) -> str:
    """Return the sentence by which data are refused; nothing is left in the cache."""
    with pytest.raises(TaskError) as raised:
        task_class(str(data))
    assert not list((tmp_path / "data").glob("own/*/*"))
    assert half_written(tmp_path) == []
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence


BROKEN: Mapping[str, tuple[str, str | bytes, Mapping[str, Any], str]] = {
    # the file
    "empty": ("t.csv", "", TEXT, "{path} is empty"),
    "blank": ("t.csv", "\n\n\n", TEXT, "{path} is empty"),
    "empty parquet": ("t.parquet", "", TEXT, "{path} is empty"),
    "header only": ("t.csv", HEADER, TEXT, "{path} has no rows"),
    "header without its end": ("t.csv", "text,label", TEXT, "{path} has no rows"),
    "a suffix": ("t.txt", HEADER + FINE, TEXT, "{path} is not a .csv, .tsv, .parquet or .jsonl"),
    "json": ("t.json", "[]", TEXT, "write one JSON object in each line of a .jsonl file"),
    "packed": ("t.csv.gz", b"\x1f\x8b", TEXT, ".jsonl file; unpack it"),
    "excel": ("t.xlsx", b"PK\x03\x04", TEXT, ".jsonl file; save the sheet as CSV"),
    "not parquet": ("t.parquet", HEADER + FINE, TEXT, "{path} cannot be read as Parquet ("),
    # the encoding
    "latin-1": (
        "t.csv",
        (HEADER + FINE + "caf\xe9,y\n").encode("latin-1"),
        TEXT,
        "{path} is not utf-8: byte 2065, in line 122, is 0xe9",
    ),
    "not ASCII": (
        "t.csv",
        HEADER + FINE + "café,y\n",
        {**TEXT, "encoding": "ascii"},
        "{path} is not ascii: byte 2065, in line 122, is 0xc3",
    ),
    "UTF-16 read as UTF-8": (
        "t.csv",
        (HEADER + FINE).encode("utf-16"),
        TEXT,
        "{path} is not utf-8: byte 1, in line 1, is 0xff",
    ),
    "a cut character": ("t.csv", b"text,label\n\xc3", TEXT, "ends in the middle of a character"),
    "unknown encoding": (
        "t.csv",
        HEADER + FINE,
        {**TEXT, "encoding": "utf-9"},
        "{path}: Python has no text encoding 'utf-9'",
    ),
    "no text encoding": ("t.csv", HEADER, {**TEXT, "encoding": "base64"}, "no text encoding"),
    # columns
    "a missing column": (
        "t.csv",
        HEADER + FINE,
        {"text": "txt", "label": "label"},
        "{path} has no column 'txt'; did you mean 'text'? Its columns are 'text', 'label'",
    ),
    "a space before a name": (
        "t.csv",
        "text, label\n" + FINE,
        TEXT,
        "{path} has no column 'label'; did you mean ' label'?",
    ),
    "another separator": (
        "t.csv",
        (HEADER + FINE).replace(",", ";"),
        TEXT,
        "has no column 'text': its only column is 'text;label'; give separator=",
    ),
    "a name twice": (
        "t.csv",
        "text,label,label\n" + FINE.replace("\n", ",y\n"),
        TEXT,
        "{path} has 2 columns named 'label'; rename one",
    ),
    "a separator of quotation": (
        "t.csv",
        HEADER + FINE,
        {**TEXT, "separator": '"'},
        "must be an ASCII character, no quotation mark",
    ),
    # the form of rows
    "a cell too many": (
        "t.csv",
        HEADER + "fine,y\nbad, worse,n\n" + FINE,
        TEXT,
        "{path}: row 2 has 3 cells, and the header 2 cells; put a cell that holds ',' in quotation",
    ),
    "a cell too few": ("t.csv", HEADER + FINE + "alone\n", TEXT, "row 121 has 1 cell, and the"),
    "an open quotation": (
        "t.csv",
        HEADER + 'fine,y\nbad,"n\n' + FINE,
        TEXT,
        "{path}: a quotation mark that opens a cell of row 2 is not closed",
    ),
    "an open quotation at the end": (
        "t.csv",
        HEADER + FINE + 'bad,"n\n',
        TEXT,
        "a cell of row 121 is not closed",
    ),
    "not JSON": ("t.jsonl", as_lines(*LINES[:3], "{'a': 1}"), TEXT, "{path}: line 4 is not JSON ("),
    "a list": ("t.jsonl", as_lines(LINES[0], [1]), TEXT, "line 2 is a list; each line must be"),
    "an empty line": (
        "t.jsonl",
        as_lines(LINES[0], "", LINES[1]),
        TEXT,
        "{path}: line 2 is empty; each line must be a JSON object",
    ),
    "deep JSON": ("t.jsonl", "[" * 100_000, TEXT, "{path}: line 1 is "),
    "a long number": (
        "t.jsonl",
        '{"a": ' + "1" * 5_000 + "}\n",
        TEXT,
        "{path}: line 1 is not JSON",
    ),
    # cells
    "an empty text": (
        "t.csv",
        HEADER + FINE + " \t,y\n,n\n",
        TEXT,
        "{path}: the column 'text' is empty in 2 rows, the first is row 121; fill or remove",
    ),
    "an empty label": ("t.csv", HEADER + FINE + "a,\n", TEXT, "'label' is empty in row 121; fill"),
    "no key": ("t.jsonl", as_lines(*LINES, {"text": "a"}), TEXT, "'label' is empty in line 121;"),
    "null": (
        "t.jsonl",
        as_lines(*LINES, {"text": None, "label": 1}),
        TEXT,
        "'text' is empty in line 121",
    ),
    "mixed labels": (
        "t.jsonl",
        as_lines(LINES[0], {"text": "a", "label": "1"}),
        TEXT,
        "the column 'label' holds a text in line 2, and a whole number before; all values must be",
    ),
    "true and 1": (
        "t.jsonl",
        as_lines(LINES[0], {"text": "a", "label": True}),
        TEXT,
        "holds true or false in line 2, and a whole number before",
    ),
    "a list in a cell": (
        "t.jsonl",
        as_lines({"text": ["a"], "label": 1}),
        TEXT,
        "the column 'text' holds a list in line 1; texts and numbers are allowed",
    ),
    "half a character": (
        "t.jsonl",
        as_lines(LINES[0], '{"text": "\\ud800", "label": 1}'),
        TEXT,
        "half a character in line 2",
    ),
    "a number beyond 64 bits": (
        "t.jsonl",
        as_lines(LINES[0], {"text": "a", "label": 10**30}),
        TEXT,
        "holds a number beyond 64 bits",
    ),
    "numbers as text": ("t.jsonl", as_lines(*LINES), {"text": "a", "label": "label"}, "not texts"),
    "fractions as labels": (
        "t.jsonl",
        as_lines(*LINES),
        {"text": "text", "label": "b"},
        "values of type double, not texts or whole numbers; convert classes to whole numbers, or "
        "write target= to predict a number",
    ),
    "a thousand": (
        "t.csv",
        NUMBER_HEADER + FINE_NUMBERS + '"1,234",1,y\n',
        NUMBERS,
        "{path}: the column 'a' holds '1,234' in row 121, which is not a number; write numbers as "
        "1234.5, without a separator of thousands or a decimal comma",
    ),
    "a date": (
        "t.csv",
        NUMBER_HEADER + "2024-02-01,1,y\n" + FINE_NUMBERS,
        NUMBERS,
        "holds '2024-02-01' in row 1, which is not a number; numbers are written as 1234.5 or 1e-3",
    ),
    "an underscore": ("t.csv", NUMBER_HEADER + "1_0,1,y\n", NUMBERS, "holds '1_0' in row 1"),
    "a word": ("t.csv", NUMBER_HEADER + FINE_NUMBERS + "1,True,y\n", NUMBERS, "'True' in row 121"),
    "missing numbers": (
        "t.csv",
        NUMBER_HEADER + FINE_NUMBERS + "NaN,1,y\n,1,n\nN/A,1,n\n",
        NUMBERS,
        "{path}: the column 'a' is empty in 3 rows, the first is row 121; fill or remove",
    ),
    "infinity": (
        "t.csv",
        NUMBER_HEADER + FINE_NUMBERS + "1,-inf,y\n",
        NUMBERS,
        "{path}: the column 'b' is infinite or beyond 1e+30 in row 121; remove such rows, or scale",
    ),
    "beyond a float": (
        "t.csv",
        NUMBER_HEADER + "1e400,1,y\n",
        NUMBERS,
        "is infinite or beyond",
    ),
    "far from others": ("t.csv", NUMBER_HEADER + "-2e30,1,y\n", NUMBERS, "beyond 1e+30 in row 1;"),
    "a constant target": (
        "t.csv",
        NUMBER_HEADER + "".join(f"{i},0,7\n" for i in range(300)),
        {"features": ["a", "b"], "target": "label"},
        "the column 'label' is 7 in all training rows, so nothing is to be predicted",
    ),
    "NaN in JSON": (
        "t.jsonl",
        as_lines(*LINES, '{"a": NaN, "b": 1.5, "label": 0}'),
        NUMBERS,
        "'a' is empty in line 121",
    ),
    # labels and splits
    "one class": (
        "t.csv",
        HEADER + FINE.replace(",n", ",y"),
        TEXT,
        "{path}: all rows have the label 'y' in the column 'label'; at least two are needed",
    ),
    "a class that training lacks": (
        "t.csv",
        "text,label,part\n" + FINE.replace("\n", ",train\n") + "a,z,test\n" * 10,
        {**TEXT, "split": "part"},
        "{path}: the label 'z' of row 121 (test) occurs in no training row; remove its rows",
    ),
    "a number to predict as the label": (
        "t.csv",
        HEADER + "".join(f"text {i},{i}.5\n" for i in range(120)),
        TEXT,
        "occurs in no training row; if a number is to be predicted, write target='label'",
    ),
    "a long label": ("t.csv", HEADER + FINE + "a," + "x" * 999, TEXT, "has 999 characters, as 'xx"),
    "numbers as labels": (
        "t.csv",
        HEADER + "".join(f"text {i},{i}\n" for i in range(10_001)),
        TEXT,
        "has more than 10,000 different labels; a number to predict is target=",
    ),
    "an unknown split": (
        "t.csv",
        "text,label,part\n" + "a,y,train\na,y,eval\n",
        {**TEXT, "split": "part"},
        "{path}: the column 'part' holds 'eval' in row 2; allowed are train, validation and test",
    ),
    "an empty split": (
        "t.csv",
        "text,label,part\na,y,train\na,y,\n",
        {**TEXT, "split": "part"},
        "the column 'part' is empty in row 2",
    ),
    "no test": (
        "t.csv",
        "text,label,part\n" + FINE.replace("\n", ",train\n"),
        {**TEXT, "split": "part"},
        "at least 10, and the test part has 0",
    ),
    "few rows": ("t.csv", HEADER + "a,y\nb,n\nc,y\n", TEXT, "of its 3 rows; each of the three spl"),
    "equal rows": ("t.csv", HEADER + "a,y\na,n\n" * 200, TEXT, "splits needs at least 10, and the"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_table_is_refused_in_one_sentence(tmp_path: Path, case: str) -> None:
    name, content, fields, said = BROKEN[case]
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    sentence = refused(tmp_path, Table(path, **fields))
    assert said.format(path=path) in sentence
    assert str(path) in sentence


def in_parquet(**columns: Any) -> Callable[[Path], None]:
    fine = {"text": [row["text"] for row in LINES], "label": ["y", "n"] * 60}
    return lambda path: pyarrow.parquet.write_table(pa.table({**fine, **columns}), path)


@pytest.mark.parametrize(
    ("write", "fields", "said"),
    [
        (in_parquet(label=[1.0] * 120), TEXT, "values of type double, not texts or whole numbers"),
        (in_parquet(text=[b"a"] * 120), TEXT, "values of type binary, not texts"),
        (in_parquet(text=[None, *["a"] * 119]), TEXT, "'text' is empty in row 1;"),
        (in_parquet(text=pa.nulls(120)), TEXT, "'text' is empty in 120 rows, the first is row 1;"),
        (in_parquet(a=pa.nulls(120), b=[1] * 120), NUMBERS, "'a' is empty in 120 rows"),
        (in_parquet(a=[[1]] * 120, b=[1] * 120), NUMBERS, "values of type list"),
        (
            in_parquet(a=pa.array([0] * 120, pa.timestamp("us")), b=[1] * 120),
            NUMBERS,
            "values of type timestamp[us], not numbers",
        ),
        (in_parquet(a=["1"] * 119 + ["x"], b=[1] * 120), NUMBERS, "'a' holds 'x' in row 120"),
        (in_parquet(a=[float("inf")] * 120, b=[1] * 120), NUMBERS, "is infinite or beyond"),
    ],
)
def test_unsuited_columns_of_parquet_are_refused(
    tmp_path: Path, write: Callable[[Path], None], fields: Mapping[str, Any], said: str
) -> None:
    path = tmp_path / "t.parquet"
    write(path)
    assert said in refused(tmp_path, Table(path, **fields))


def test_a_truncated_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    in_parquet()(path)
    path.write_bytes(path.read_bytes()[:-30])
    assert "cannot be read as Parquet (" in refused(tmp_path, Table(path, **TEXT))
    path = tmp_path / "damaged.parquet"
    in_parquet()(path)
    content = bytearray(path.read_bytes())
    content[4:200] = bytes(196)  # the pages; the description at the end is whole
    path.write_bytes(content)
    assert "cannot be read as Parquet (" in refused(tmp_path, Table(path, **TEXT))


ODD: Mapping[str, tuple[str, str | bytes, Mapping[str, Any]]] = {
    "a byte order mark": ("t.csv", "\ufeff" + HEADER + FINE, {}),
    "CRLF": ("t.csv", (HEADER + FINE).replace("\n", "\r\n"), {}),
    "CR": ("t.csv", (HEADER + FINE).replace("\n", "\r"), {}),
    "no end of the last line": ("t.csv", (HEADER + FINE).rstrip(), {}),
    "empty lines": ("t.csv", "\n" + (HEADER + FINE).replace("\n", "\n\n"), {}),
    "quotation marks": ("t.csv", HEADER + FINE.replace("text", '"text').replace(",", '",'), {}),
    "semicolons": ("t.csv", (HEADER + FINE).replace(",", ";"), {"separator": ";"}),
    "bars in TSV": ("t.tsv", (HEADER + FINE).replace(",", "|"), {"separator": "|"}),
    "capitals in the suffix": ("T.CSV", HEADER + FINE, {}),
    "spaces around labels": ("t.csv", HEADER + FINE.replace(",", ",  "), {}),
    "more columns": (
        "t.csv",
        "id,id,text,,label\n"
        + FINE.replace("text", "1,1,text").replace(",y", ",,y").replace(",n", ",,n"),
        {},
    ),
    "UTF-16": ("t.csv", (HEADER + FINE).encode("utf-16"), {"encoding": "utf-16"}),
    "UTF-16 without a mark": (
        "t.csv",
        (HEADER + FINE).encode("utf-16-le"),
        {"encoding": "utf-16-le"},
    ),
    "another name of UTF-8": ("t.csv", "\ufeff" + HEADER + FINE, {"encoding": "UTF8"}),
    "JSON with spaces": (
        "t.jsonl",
        as_lines(*(f'  {{"label": "{label}", "text": "{text}"}} ' for text, label in PLAIN)),
        {},
    ),
}


@pytest.mark.parametrize("case", ODD)
def test_an_odd_table_is_read_as_a_plain_one(tmp_path: Path, case: str) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text(HEADER + FINE)
    name, content, fields = ODD[case]
    path = tmp_path / "odd" / name
    path.parent.mkdir()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found, wanted = (
        build_task(str(Table(each, **TEXT, **some)), 5).training_batch(0, 64, 0)
        for each, some in ((path, fields), (plain, {}))
    )
    assert found.inputs["inputs"].tolist() == wanted.inputs["inputs"].tolist()
    assert found.targets.tolist() == wanted.targets.tolist()


def test_cells_may_hold_ends_of_lines_quotation_marks_and_zeros(tmp_path: Path) -> None:
    odd = ['two\nlines, and "quoted"', "a\0zero", "5\u2028 \x85 lines", " space "]
    rows = "".join(f'"{text.replace(chr(34), chr(34) * 2)}",y\n' for text in odd)
    path = tmp_path / "t.csv"
    path.write_text(HEADER + rows + FINE, newline="")
    task: Any = build_task(str(Table(path, **TEXT)), 9)
    places = task.prepared.array("offsets")
    content = task.prepared.array("text")
    found = [content[places[i] : places[i + 1]].tobytes().decode() for i in range(4)]
    assert found == odd


def test_numbers_may_have_spaces_and_any_usual_form(tmp_path: Path) -> None:
    forms = ["1", " 2 ", "+3", "-4.5", ".5", "6.", "7e-1", "1E2", "\u00a09", "-0"]
    path = tmp_path / "t.csv"
    path.write_text(
        "a,y,i\n" + "".join(f"{form},{i % 2},{i}\n" for i, form in enumerate(forms * 20))
    )
    task: Any = build_task(str(Table(path, features=["a", "i"], label="y")), 2)
    wanted = [1, 2, 3, -4.5, 0.5, 6, 0.7, 100, 9, 0]
    assert task.prepared.array("values")[:10, 0].tolist() == wanted
    assert not np.signbit(task.prepared.array("values")[9, 0])


def test_a_huge_cell_is_cut_and_said(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + FINE + '"' + "wörd\n" * 2_000_000 + '",y\n')
    task: Any = build_task(str(Table(path, **TEXT)), 5)
    assert "; 1 were cut after 100,000 characters" in task.source.title
    assert np.diff(task.prepared.array("offsets")).max() == 100_000 + 20_000


def test_a_row_of_many_megabytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(HEADER + FINE + "x" * 80_000_000 + ",y\n")
    assert "a row after row 120 is longer than 16 MB" in refused(tmp_path, Table(path, **TEXT))


def test_rows_are_counted_beyond_the_first_part(tmp_path: Path) -> None:
    count = 1_400_000  # 18 MB
    path = tmp_path / "t.csv"
    lines = "some text,y\nother text,n\n" * (count // 2)
    path.write_text(HEADER + lines + "ragged\n")
    assert f"row {count + 1} has 1 cell" in refused(tmp_path, Table(path, **TEXT))
    path = tmp_path / "other.csv"
    path.write_text(HEADER + lines + "empty,\n")
    assert f"is empty in row {count + 1};" in refused(tmp_path, Table(path, **TEXT))


def test_classes_of_numbers_are_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("x,y\n" + "".join(f"{i},{(10, 9, -2)[i % 3]}\n" for i in range(300)))
    task: Any = task_class(str(Table(path, features=["x"], label="y")))
    assert task.prepared.facts["classes"] == ["-2", "9", "10"]


def test_names_of_columns_may_hold_any_printable_sign(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    names = ["full text, long", "la.bel [é]", 'a "q"']
    header = ",".join(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)
    path.write_text(f"{header}\n" + "".join(f"t {i},{i % 2},{i}\n" for i in range(300)))
    table = Table(path, text=names[0], label=names[1])
    assert "2 classes" in task_class(str(table)).source.title
    other = Table(path, features=[names[2]], label="la.bel [e\u0301]")  # decomposed
    assert "2 classes" in task_class(str(other)).source.title
    parquet = tmp_path / "t.parquet"
    columns = {"a.b": [f"t {i}" for i in range(300)], "y": [0, 1] * 150}
    pyarrow.parquet.write_table(pa.table(columns), parquet)
    assert "2 classes" in task_class(str(Table(parquet, text="a.b", label="y"))).source.title


def test_a_link_is_followed_and_other_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(HEADER + FINE)
    (tmp_path / "link.csv").symlink_to("t.csv")
    assert "120 rows" in task_class(str(Table(tmp_path / "link.csv", **TEXT))).source.title
    (tmp_path / "lost.csv").symlink_to("nothing")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name, said in {
        "lost.csv": "does not exist",
        "none.csv": "does not exist",
        "folder.csv": "is a folder; give the path of a file",
        "pipe.csv": "is not a regular file",
    }.items():
        for data in (Table(tmp_path / name, **TEXT), TextFile(tmp_path / name)):
            with pytest.raises(TaskError, match=said):
                task_class(str(data))
    for data in (Table("https://x.org/t.csv", **TEXT), TextFile("s3://x/t.txt")):
        with pytest.raises(TaskError, match="is an address; download the file"):
            task_class(str(data))


@pytest.mark.parametrize(
    ("content", "fields", "said"),
    [
        (b"", {}, "is empty"),
        (b"abc\n" * 20, {}, "has 80 characters; at least 1,000 are needed"),
        (b"abc\n" * 20, {"symbols": "bytes"}, "has 80 bytes; at least 1,000 are needed"),
        (b"abc\n" * 999 + b"\xff", {}, "is not utf-8: byte 3997, in line 1000, is 0xff"),
        (b"abc " * 999 + b"\xc3", {"symbols": "subwords"}, "in the middle of a character"),
    ],
)
def test_a_broken_text_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes, fields: Mapping[str, Any], said: str
) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(content)
    assert said in refused(tmp_path, TextFile(path, **fields))


@pytest.mark.parametrize("content", ["\ufeffa text\r\n" * 300, "é\0\u2028\n" * 400, "\n" * 1_500])
def test_an_odd_text_is_read(tmp_path: Path, content: str) -> None:
    path = tmp_path / "t.txt"
    path.write_text(content, newline="")
    task = build_task(str(TextFile(path)), 20)
    shown = task.text(task.training_batch(0, 1, 0).inputs["inputs"][0].tolist())
    assert len(shown) == 20
    assert shown in content.removeprefix("\ufeff").replace("\r\n", "\n") * 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"label": "y"}, "give either text=COLUMN or features="),
        ({"text": "x", "features": ["x"], "label": "y"}, "give either text=COLUMN or features="),
        ({"text": "x"}, "give either label=COLUMN, a class, or target=COLUMN"),
        ({"text": "x", "label": "x"}, "the column 'x' has two parts"),
        ({"text": "x", "label": "y", "symbols": "letters"}, "'letters'"),
        ({"text": "x", "label": "y", "vocabulary": 8}, "vocabulary=8"),
        ({"features": [], "label": "y"}, "features="),
    ],
)
def test_an_impossible_definition_is_refused(fields: Mapping[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as raised:
        Table("t.csv", **fields)
    assert said in str(raised.value)


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text(HEADER + FINE)
    (tmp_path / "file").touch()
    monkeypatch.setenv("BAKEOFF_DATA", str(tmp_path / "file"))
    with pytest.raises(TaskError, match=r"cannot be prepared in .* BAKEOFF_DATA names another"):
        task_class(str(Table(tmp_path / "t.csv", **TEXT)))
