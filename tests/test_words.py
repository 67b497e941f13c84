"""Names, docstrings and commit subjects follow CONTRIBUTING.md, "Words"."""

from __future__ import annotations

import ast
import io
import keyword
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from sources import ROOT, source_files

DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef
# A verb that a name begins with and that is missing there is added.
VERBS = frozenset(Path(__file__).with_name("verbs.txt").read_text().split())
PREDICATES = frozenset("is has can are should must may needs".split())
WEAK_VERBS = frozenset("get do make compute handle process".split())

PREPOSITIONS = frozenset(
    "above across after against along around as at before behind below beside between beyond by for from in inside into of "
    "on onto out outside over per through to under upon with within without".split()
)
ADVERBS = frozenset(
    "ahead again alone already apart aside away back else enough ever here instead just later maybe now often once soon "
    "still then there thus together twice yet".split()
)
PARTICIPLES = frozenset(
    "begun born bound broken brought built caught chosen come cut done drawn driven fallen felt found given gone grown heard "
    "held hidden kept known laid led left lost made meant met paid put read said seen sent set shown shut sold spent split "
    "spoken stood struck taken taught thought told torn understood won worn written".split()
)
# Past participles that are also verbs or nouns in their own right.
VERBS_TOO = frozenset("bound cut put read set split apply multiply reply supply assembly tally".split())
# The first word of a conversion: to_list, from_onnx, as_jax, with_shapes.
CONVERSIONS = frozenset("to from as with".split())
# Methods of the public contract, TVM's spellings among them, and two that templates of generated code or a reader of Python's
# syntax trees call by name.
CONTRACT = frozenset("same_as compute_at compute_with clone_in for_range failed _query_inside _read_for".split())

QUESTION = re.compile(
    r"(?:(?:Tell|Say|Show)s? )?(?:What|Whether|Where|How|Which|Who|Those|That|When|Why)\b", re.IGNORECASE
)
THIRD_PERSON = re.compile(
    r"(?:Add|Allow|Answer|Appl(?:ie)|Ask|Build|Call|Check|Comput(?:e)|Creat(?:e)|Declar(?:e)|Do(?:e)|Emit|Find|Gi(?:ve)|Hold|"
    r"Join|Keep|Let|Look|Make|Mark|Move|Name|Open|Parse|Print|Prove|Put|Raise|Read|Refuse|Remove|Replace|Return|Rewrite|Run|"
    r"Say|Show|Start|Stop|Store|Take|Tell|Turn|Use|Verif(?:ie)|Wait|Walk|Write|Yield)s\b"
    r"(?!,? (?:of|that|which|by|to)\b)"  # "Names that ...", "Checks of ..." are nouns
)
# "In 16 bits" and "For each axis" go on from the name of a function, which a reader of the help does not see beside them.
NO_BEGINNING = PREPOSITIONS | {"until", "among", "while", "since", "because", "if", "either"}
# A docstring that begins with the fields of a class, or goes on where the name stops, says too late what the thing is.
FIELDS = re.compile(r"[a-z_]\w*(?:, [a-z_]\w*)*: ")
SUBJECT = re.compile(r"[a-z][\w/.+-]*(?:, [\w/.+-]+)*: \S")


def banned_words() -> dict[str, str]:
    """Words that the glossary replaces, each with the term to use."""
    found: dict[str, str] = {}
    for line in (ROOT / "docs" / "glossary.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[0] not in ("term", "---"):
            words = (word.strip() for word in cells[2].split(","))
            found |= {word: cells[0] for word in words if word and not word.startswith("(")}
    return found


BANNED = banned_words()


def name_faults(name: str) -> Iterator[str]:
    """The reasons for which a function or module may not have this name."""
    bare = name.strip("_")
    parts = bare.split("_")
    if name in CONTRACT or (len(parts) > 1 and parts[0] in CONVERSIONS and parts[-1] not in PREPOSITIONS):
        return
    if parts[0] in PREPOSITIONS or parts[-1] in PREPOSITIONS:
        yield f"{name} begins or ends with a preposition"
    if len(parts) == 1 and (
        bare in ADVERBS
        or bare in PARTICIPLES - VERBS_TOO
        or (bare.endswith(("ed", "ly")) and len(bare) > 4 and bare not in VERBS_TOO)
    ):
        yield f"{name} is a bare participle or adverb"
    for word, term in BANNED.items():
        if word in (bare, *parts):
            yield f"{name}: say {term!r} instead of {word!r} (docs/glossary.md)"


def docstring_faults(text: str) -> Iterator[str]:
    """The reasons for which a docstring may not begin like this."""
    first = text.strip().partition("\n")[0]
    if QUESTION.match(first):
        yield f"begins with a question word: {first[:60]!r}"
    if THIRD_PERSON.match(first):
        yield f"begins with a verb that is no imperative: {first[:60]!r}"
    if first.partition(" ")[0].strip(",:;").lower() in NO_BEGINNING:
        yield f"has no noun or verb to begin with: {first[:60]!r}"


def is_property(node: ast.AST) -> bool:
    """Whether a function is a property, whose name is a noun."""
    names = {ast.unparse(each).rpartition(".")[2] for each in getattr(node, "decorator_list", ())}
    return bool(names & {"property", "cached_property", "setter"})


def file_faults(tree: ast.Module, public: set[str]) -> Iterator[str]:
    """The faults of one file. Names of the public contract are not looked at, nor are functions inside of functions."""
    bodies: list[ast.Module | ast.ClassDef] = [tree]
    for holder in bodies:
        if (text := ast.get_docstring(holder)) is not None:
            yield from docstring_faults(text)
            if isinstance(holder, ast.ClassDef) and FIELDS.match(text.strip()):
                yield f"{holder.name} begins with its fields"
        for node in holder.body:
            if isinstance(node, ast.ClassDef):
                bodies.append(node)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if (text := ast.get_docstring(node)) is not None:
                    yield from docstring_faults(text)
                if not (node.name.startswith("__") or node.name in public or is_property(node)):
                    yield from name_faults(node.name)


def public_names() -> set[str]:
    """Names that `__init__` files export, and those of topi's operators: the contract fixes them."""
    found = set[str]()
    for path in source_files():
        if path.name in ("__init__.py", "homes.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found |= set(node.value.split())
    return found


@dataclass(frozen=True)
class Words:
    """What the files say: faults of names and docstrings; and, compat/ left out, the first word of each function's name of those
    that the rule holds for, and every docstring."""

    faults: list[str]
    first_words: list[str]
    docstrings: list[str]


@cache
def package_words() -> Words:
    """The words of every file, each of which is parsed once; the trees are not kept."""
    public, said = public_names(), Words([], [], [])
    for path in source_files():
        place = str(path.relative_to(ROOT))
        stem = path.parent.name if path.name == "__init__.py" else path.stem
        tree = ast.parse(path.read_text())
        nodes = list(ast.walk(tree))
        # Names of compat/ that begin with no underscore are TVM's.
        theirs = {node.name for node in nodes if isinstance(node, DEFINITIONS) and node.name[0] != "_"}
        names = public | theirs if place.startswith("compat/") else public
        said.faults.extend(f"{place}: {fault}" for fault in (*name_faults(stem), *file_faults(tree, names)))
        if place.startswith("compat/"):
            continue
        said.first_words.extend(first_words(tree, public))
        texts = (ast.get_docstring(node) for node in nodes if isinstance(node, ast.Module | ast.ClassDef | DEFINITIONS))
        said.docstrings.extend(text for text in texts if text is not None)
    return said


def first_words(tree: ast.Module, public: set[str]) -> Iterator[str]:
    """The first word of each function's name."""
    bodies: list[ast.Module | ast.ClassDef] = [tree]
    for holder in bodies:
        bodies += [node for node in holder.body if isinstance(node, ast.ClassDef)]
        for node in holder.body:
            if not isinstance(node, DEFINITIONS) or is_property(node):
                continue
            if not node.name.startswith("__") and node.name not in public:
                yield node.name.strip("_").partition("_")[0]


def test_names_and_docstrings_are_plain_words() -> None:
    assert package_words().faults == []


def test_half_of_the_functions_begin_with_a_verb_or_a_predicate() -> None:
    words = package_words().first_words
    active = [word for word in words if word in VERBS | PREDICATES]
    assert len(active) >= 0.45 * len(words), f"{len(active)} of {len(words)} names begin with a verb or a predicate"
    weak = [word for word in active if word in WEAK_VERBS]
    assert len(weak) <= 0.1 * len(active), f"{len(weak)} of {len(active)} verbs say little (get, do, make ...)"


def test_docstrings_begin_with_no_question_word() -> None:
    texts = package_words().docstrings
    questions = [text.partition("\n")[0] for text in texts if QUESTION.match(text.strip())]
    assert len(questions) <= 0.01 * len(texts), questions


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ('"""What a stage reads."""', "question word"),
        ('def f(x):\n    """Tell whether it is one."""', "question word"),
        ('def f(x):\n    """Returns one."""', "no imperative"),
        ('def size(x):\n    """Of one element."""', "no noun or verb to begin with"),
        ('def bits(x):\n    """In 16 bits: the upper half."""', "no noun or verb"),
        ('class Tile:\n    """rows: of a block."""', "begins with its fields"),
        ("def _apart(x): ...", "bare participle or adverb"),
        ("def turned(x): ...", "say 'transposed'"),
        ("def _within_loop(x): ...", "preposition"),
        ("class A:\n    def moved(self): ...", "bare participle"),
        ("def loops_of(x): ...", "preposition"),
    ],
)
def test_a_fault_is_found(source: str, fault: str) -> None:
    assert any(fault in each for each in file_faults(ast.parse(source), set()))


def test_plain_words_pass() -> None:
    source = '"""Loop nests."""\ndef fold_constants(x):\n    """Fold x."""\ndef is_linear(x): ...\ndef split(x): ...'
    assert list(file_faults(ast.parse(source), set())) == []


# The share of lines that have a comment. Above it comments repeat the code, below it the reader has to find its reasons elsewhere.
LEAST_COMMENTED, MOST_COMMENTED = 0.02, 0.04
PRAGMA = re.compile(r"#\s*(?:noqa|pyright|type|fmt|ruff|pragma)\b")


def comments(text: str) -> Iterator[tuple[int, str, str]]:
    """Each comment of a file with its line and the code that it is beside, or above."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            at = token.start[0]
            beside = lines[at - 1][: token.start[1]]
            below = next(
                (line for line in lines[at:] if not line.lstrip().startswith("#")), ""
            )  # blank below a heading
            yield at, token.string, beside if beside.strip() else below


def words_of(text: str) -> set[str]:
    """The words of three letters or more, those of identifiers apart, without the s of a plural."""
    return {word.lower().rstrip("s") for word in re.findall(r"[A-Z]?[a-z]{2,}|[A-Z]{3,}", text)}


def repeats_code(comment: str, code: str) -> bool:
    """Return whether most words of a comment are identifiers of its line."""
    words = words_of(comment)
    identifiers = {name for name in re.findall(r"[A-Za-z_]\w*", code) if not keyword.iskeyword(name)}
    return len(words) > 1 and 2 * len(words & words_of(" ".join(identifiers))) > len(words)


def test_comments_say_what_the_code_does_not_and_stand_at_few_lines() -> None:
    faults, commented, lines = list[str](), 0, 0
    for path in source_files("compat"):
        text = path.read_text()
        lines += len(text.splitlines())
        for line, comment, code in comments(text):
            commented += 1
            if not PRAGMA.match(comment) and repeats_code(comment, code):
                faults.append(f"{path.relative_to(ROOT)}:{line}: {comment}")
    assert faults == []
    assert LEAST_COMMENTED <= commented / lines <= MOST_COMMENTED


@pytest.mark.parametrize(
    ("comment", "code"),
    [("# the next stage's axis", "axis = next_stage.axis"), ("# add the bias", "y = add_bias(x, bias)")],
)
def test_a_comment_that_repeats_its_line_is_found(comment: str, code: str) -> None:
    assert repeats_code(comment, code)


def test_a_reason_passes() -> None:
    assert not repeats_code("# the last panel may be short", "panels = -(-outs // width)")


def git(*words: str) -> str | None:
    """The output of a git command here; nothing where there is no repository or no git."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def test_commit_subjects_are_an_area_and_an_imperative() -> None:
    added = git("log", "--diff-filter=A", "--format=%H", "--", "tests/test_words.py")
    if not added:
        pytest.skip("no history of the repository here")
    subjects = (git("log", "--no-merges", "--format=%s", f"{added.split()[-1]}..HEAD") or "").splitlines()
    careless = [each for each in subjects if len(each) > 72 or not SUBJECT.match(each)]
    assert careless == []
