"""Check the English of docstrings, comments and messages in Python files.

    python tools/check_english.py [--summary] PATH...

Prints ``file:line: rule: text`` for each finding, or with --summary the counts of each folder, and
exits with 1 if there is any. Text in backticks is code and is not checked.

- opening: no sentence begins with one of `OPENINGS`, unless it is a question.
- verb: the docstring of a function begins with a verb in the imperative; a property's may not.
- no: "is not a", never "is no", but "there is no".
- see: a docstring says more than "See `X`.".
- person: a program is not a person: `who` and `meets` are for people.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

OPENINGS = ("Of", "What", "As", "Whether", "Those", "Likewise", "Who", "Where", "None")
_NOT_VERBS = """
a an the one two three four five all both each every everything nothing some such no any its their
this that these which how why when by with from in for at to on over without under into between
behind before after only also so it they there and or not else empty again
of what as whether those likewise who where none
"""
_VERBS_IN_S = frozenset(("pass", "process", "press", "compress", "express", "guess", "access"))
_VERBS_IN_ED_ING = frozenset(("feed", "embed", "seed", "need", "shed", "bring", "string", "ring"))
_SENTENCE = re.compile(r"(?:\A|(?<=[.!?:;])\s+|\n\s*\n\s*|\n\s*- )(?=\S)")
_ARGUMENT = re.compile(r"\n\s+\*{0,2}\w+: ")  # in a section Args or Attributes
_OPENING = re.compile(rf"(?:{'|'.join(OPENINGS)})\b")
_NO = re.compile(r"(?<!there )(?<!There )\b(?:is|are|was|were) no (?!longer|more|less|fewer)\w+")
_PERSON = re.compile(
    r"(?<!people )(?<!person )(?<!user )(?<!users )(?<!reader )(?<!readers )(?<!author )"
    r"(?<!somebody )(?<!anybody )(?<!those )\bwho\b|\b(?:meets?|hesitates?|luck|learns? of)\b"
    r"|\bsays? (?:of|so)\b",
    re.IGNORECASE,
)
_SEE_ONLY = re.compile(r"See `[^`]+`\.?")
_MESSAGES = ("print", "echo", "Option", "Argument", "Typer")

Text = tuple[int, str, str]  # the line where it begins, its kind, the text
Found = tuple[int, str, str]  # line, rule, text


def findings(source: str) -> Iterator[Found]:
    """Yield the line, the rule and the words of each finding in a Python file."""
    for line, kind, text in sorted(_texts(source)):
        checked = re.sub(r"`[^`\n]*`", lambda code: "`" + "_" * (len(code[0]) - 2) + "`", text)
        for rule, at in _broken(kind, checked):
            yield line + text.count("\n", 0, at), rule, " ".join(text[at:].split())[:60]
        if kind != "comment" and _SEE_ONLY.fullmatch(text.strip()):
            yield line, "see", text.strip()


def _broken(kind: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield each broken rule and its place in the text."""
    if kind == "function" and not _is_imperative(text.split(maxsplit=1)[0] if text.strip() else ""):
        yield "verb", 0
    starts = {0, *(match.end() for match in _SENTENCE.finditer(text))}
    arguments = {match.end() for match in _ARGUMENT.finditer(text)}
    for at in sorted(starts | arguments):
        word = text[at:].lstrip("# \n")
        opening = _OPENING.match(word.capitalize() if kind == "comment" and not at else word)
        is_question = re.match(r"[^.!?]*\?", word)
        is_usual = at in arguments and word.startswith("Whether ")
        if opening and not is_question and not is_usual and not (kind == "function" and not at):
            yield "opening", at
    yield from (("no", match.start()) for match in _NO.finditer(text))
    yield from (("person", match.start()) for match in _PERSON.finditer(text))


def _is_imperative(word: str) -> bool:
    """Return False if a first word is clearly not a verb in the imperative."""
    low = word.lower()
    is_inflected = (low.endswith("s") and low not in _VERBS_IN_S) or (
        low.endswith(("ed", "ing")) and low not in _VERBS_IN_ED_ING
    )
    return (
        word.isalpha() and word[0].isupper() and low not in _NOT_VERBS.split() and not is_inflected
    )


def _texts(source: str) -> Iterator[Text]:
    """Yield the docstrings, the comments and the messages of a file."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            if ast.get_docstring(node, clean=False) is not None:
                held = node.body[0].value  # type: ignore[attr-defined]
                yield held.lineno, _kind(node), held.value
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _strings(node.exc)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in _MESSAGES:
            yield from _strings(node)
    yield from _comments(source)


def _kind(node: ast.AST) -> str:
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return "docstring"
    decorators = {ast.unparse(each).split(".")[-1] for each in node.decorator_list}
    return "property" if decorators & {"property", "cached_property"} else "function"


def _strings(call: ast.Call) -> Iterator[Text]:
    for given in [*call.args, *(keyword.value for keyword in call.keywords)]:
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield given.lineno, "message", given.value
        elif isinstance(given, ast.JoinedStr):
            parts = [p.value if isinstance(p, ast.Constant) else "`_`" for p in given.values]
            yield given.lineno, "message", "".join(map(str, parts))


def _comments(source: str) -> Iterator[Text]:
    """Yield comments; lines of one column that follow each other are one comment."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    found = [token for token in tokens if token.type == tokenize.COMMENT]
    blocks = groupby(enumerate(found), lambda item: (item[1].start[0] - item[0], item[1].start[1]))
    for _, block in blocks:
        lines = [token for _, token in block]
        yield lines[0].start[0], "comment", "\n".join(one.string.lstrip("#! ") for one in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files, and return 1 if there is a finding."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders")
    parser.add_argument("--summary", action="store_true", help="print the counts of each folder")
    given = parser.parse_args(arguments)
    files = [f for path in given.paths for f in ([path] if path.is_file() else path.rglob("*.py"))]
    counts: Counter[tuple[str, str]] = Counter()
    for file in sorted(files):
        for line, rule, text in findings(file.read_text("utf-8")):
            counts[file.parent.as_posix(), rule] += 1
            if not given.summary:
                print(f"{file}:{line}: {rule}: {text}")
    if given.summary:
        for folder, of_folder in groupby(sorted(counts.items()), lambda item: item[0][0]):
            print(f"{folder}: " + ", ".join(f"{rule} {n}" for (_, rule), n in of_folder))
        print(f"{counts.total()} findings")
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())
