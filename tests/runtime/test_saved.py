"""What `io.load` makes of files that hold something else, or are damaged."""

import gc
import io
import json
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from dlang.host import effects, saved
from dlang.host.effects import Host
from dlang.host.errors import RunError
from dlang.host.saved import decoded, encoded

TREE = """
import io
enum Tree { Leaf(value: f64[2]), Node(left: Tree, right: Tree) }
struct State { t: Tree, kind: Kind, w: f64[n], half: bf16, name: str }
enum Kind { Small, Large(count: i64) }
"""
SAVE = """
fn main() {
  let w = [0.5, 1.0]
  let t = Node(Leaf(w), Leaf(w))
  io.save("s.npz", State(t = t, kind = Large(2), w = [1.0, 2.0, 3.0], half = bf16(2.0), name = "x"))
}
"""
LOAD = """
fn sum_of(t: Tree) -> f64 = match t { Leaf(v) => sum(v), Node(l, r) => sum_of(l) + sum_of(r) }
fn main() {
  let s: State<n> = io.load("s.npz")
  print("{sum_of(s.t)} {s.kind} {sum(s.w)} {n} {s.half}")
}
"""
PROGRAM = TREE.replace("struct State {", "struct State<n> {")


@pytest.fixture
def file(write, dlc):
    """A file with a state, and a program that reads it."""
    assert dlc("run", write(PROGRAM + SAVE, "save.dl")) == (0, "", "")
    return write(PROGRAM + LOAD, "load.dl")


def changed(page=None, **arrays):
    """Writes the file again with other members, or another page; None leaves a member out."""
    with np.load("s.npz") as archive:
        members = {name: archive[name] for name in archive.files}
        comment = archive.zip.comment if page is None else page
    with zipfile.ZipFile("s.npz", "w") as out:
        for name, value in (members | arrays).items():
            if value is not None:
                memory = io.BytesIO()
                np.save(memory, value)
                out.writestr(f"{name}.npy", memory.getvalue())
        out.comment = comment


def said():
    with np.load("s.npz") as archive:
        return json.loads(archive.zip.comment)


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_state_comes_back(file, dlc, backend):
    assert dlc("run", "--backend", backend, file) == (0, "3.0 Large(2) 6.0 3 2.0\n", "")


def test_numpy_reads_the_arrays_by_the_names_of_the_fields(file):
    with np.load("s.npz") as archive:
        assert (
            archive["w"].tolist() == [1.0, 2.0, 3.0] and archive["kind.tag"] == 1 and archive["kind.Large.count"] == 2
        )
        assert archive["t"] == 1 and archive["Tree.node"].tolist() == [0, 1]
    tree = {"Leaf": {"value": "f64"}, "Node": {"left": "Tree", "right": "Tree"}}
    assert said() == {"dlang": 1, "variants": {"kind.tag": ["Small", "Large"]}, "types": {"Tree": tree}}


def test_shared_nodes_are_saved_once_and_deep_trees_without_recursion(write, dlc):
    text = """
        import io
        enum List { End, Cons(head: f64, rest: List) }
        enum Twin { One(x: f64), Two(a: Twin, b: Twin) }
        fn main() {
          var l = End
          for i < 20_000 { l = Cons(1.0, l) }
          io.save("l.npz", l)
          let back: List = io.load("l.npz")
          var sum = 0.0
          var at = back
          for i < 20_000 { match at { Cons(h, rest) => { sum += h; at = rest }, End => () } }
          var t = One(1.0)
          for i < 30 { t = Two(t, t) }
          io.save("t.npz", t)
          print("{sum}")
        }
    """
    code, out, err = dlc("run", write(text))
    assert (code, out) == (0, "20000.0\n"), err
    with np.load("t.npz") as archive:
        assert len(archive["Twin.node"]) == 31


@pytest.mark.parametrize(
    "members, code, words",
    [
        ({"w": None}, "E0823", "`w`"),
        ({"w": np.ones((1, 2))}, "E0824", "`w` has 2 axes"),
        ({"w": np.ones(2, complex)}, "E0825", "`w` holds complex128"),
        ({"half": np.float32(1.001)}, "E0825", "`half` holds f32"),
        ({"name": np.int64(3)}, "E0825", "`name` holds i64, and the program asks for texts"),
        ({"name": np.bytes_(b"x")}, "E0825", "`name` holds bytes"),
        ({"kind.tag": np.int64(2)}, "E0821", "`kind.tag`"),
        ({"Tree.tag": np.array([0, 5])}, "E0821", "`Tree.tag`"),
        ({"t": np.int64(7)}, "E0821", "`t` names a node"),
        ({"Tree.Node.left": np.array([1])}, "E0821", "`Tree.Node.left` names a node"),
        ({"Tree.Leaf.value": np.ones(1)}, "E0821", "does not have its size"),
        ({"Tree.Leaf.value.axes": np.array([[1], [2]])}, "E0821", "does not have its size"),
        ({"Tree.node": np.array([0])}, "E0821", "damaged"),
        ({"t": np.int64(-1)}, "E0821", "`t` lacks a node"),
        ({"Tree.Node.right": np.array([-1])}, "E0821", "`Tree.Node.right` lacks a node"),
        ({"Tree.node": np.array([[0], [1]])}, "E0821", "`Tree.node`"),
        ({"Tree.Node.left": np.array([0.5])}, "E0821", "`Tree.Node.left`"),
        ({"page": b""}, "E0828", "io.save"),
        ({"page": b'{"dlang":1,]'}, "E0821", "damaged"),
        ({"page": b'{"dlang":1,"variants":{},"types":{"Tree":{"Leaf":[],"Node":[]}}}'}, "E0821", "makes no sense"),
        ({"page": b'{"dlang":1,"variants":{"kind.tag":[1]},"types":{}}'}, "E0821", "makes no sense"),
    ],
)
def test_what_does_not_fit_is_refused(file, dlc, members, code, words):
    changed(**members)
    ended, _, err = dlc("run", file)
    assert ended == 1 and f"error[{code}]: cannot read `s.npz`: " in err and words in err and "load.dl:8:" in err


@pytest.mark.parametrize(
    "old, new, words",
    [
        (
            "enum Kind { Small, Large(count: i64) }",
            "enum Kind { Large(count: i64), Small }",
            "`kind.tag` has other parts",
        ),
        ("Node(left: Tree, right: Tree)", "Node(left: Tree, other: Tree)", "`other: Tree`"),
        ("Leaf(value: f64[2])", "Leaf(value: f32[2])", "`value: f64`"),
    ],
)
def test_another_type_is_refused(file, dlc, write, old, new, words):
    program = (PROGRAM + LOAD).replace(old, new).replace("(t: Tree) -> f64 = match t", "(t: Tree) -> f64 = match t")
    program = program.replace("sum(v)", "f64(sum(v))")
    ended, _, err = dlc("run", write(program, "other.dl"))
    assert ended == 1 and "error[E0828]" in err and words in err


def test_a_later_version_is_refused(file, dlc):
    changed(page=json.dumps(said() | {"dlang": 99}, separators=(",", ":")).encode())
    ended, _, err = dlc("run", file)
    assert ended == 1 and "error[E0828]" in err and "version 99" in err


def test_types_that_contain_each_other_come_back(write, dlc):
    """Nodes without fields are one in memory, whatever their types."""
    text = """
        import io
        enum A { NoA, OneA(B, A) }
        enum B { NoB, OneB(A) }
        enum Maybe { Nothing, Just(a: A) }
        fn size(a: A) -> i64 = match a { NoA => 1, OneA(b, a) => size_of_b(b) + size(a) }
        fn size_of_b(b: B) -> i64 = match b { NoB => 100, OneB(a) => size(a) }
        fn main() {
          io.save("a.npz", (OneA(NoB, NoA), [Nothing, Just(OneA(OneB(NoA), NoA))]))
          let both: (A, Maybe[n]) = io.load("a.npz")
          let (a, m) = both
          print("{size(a)} {[match x { Nothing => 0, Just(a) => size(a) } for x in m]}")
        }
    """
    assert dlc("run", write(text)) == (0, "101 [0 2]\n", "")


def test_the_sizes_of_trees_are_checked_when_they_are_looked_at(write, dlc):
    text = """
        import io
        enum Rows<n> { Empty, More(row: f64[n], rest: Rows<n>) }
        fn added(t: Rows<n>) -> f64[n] = match t { Empty => zeros(n), More(row, rest) => row + added(rest) }
        fn main() {
          io.save("r.npz", More([1.0, 2.0], Empty))
          let r: Rows<3> = io.load("r.npz")
          print("{added(r)}")
        }
    """
    code, out, err = dlc("run", write(text))
    assert (code, out) == (1, "") and "error[E0807]" in err


@pytest.mark.parametrize(
    "body, code, words",
    [
        ('let x = io.load("a.npz")', "E0412", "is not known"),
        ('let x: Even<n> = io.load("a.npz")', "E0412", "the size `n` and nothing more"),
        ('let x: (f64) -> f64 = io.load("a.npz")', "E0418", "function"),
        ('io.save("a.npz", |x: f64| x)', "E0418", "function"),
        ('io.save("a.npz", ([() for i < 3], 1))', "E0418", "hold nothing"),
        ('io.log("a.csv", (1, [1.0, 2.0]))', "E0418", "`1` is no such thing"),
    ],
)
def test_what_cannot_be_saved_or_loaded_is_refused(write, dlc, body, code, words):
    ended, _, err = dlc("run", write(f"import io\nstruct Even<n> {{ w: f64[2 * n] }}\nfn main() {{ {body} }}\n"))
    assert ended == 1 and f"error[{code}]" in err and words in err


def test_an_interrupted_run_leaves_the_file_as_it_was(file, dlc, monkeypatch):
    before = Path("s.npz").read_bytes()

    def broken(*_):
        raise RunError("E0822", "no")

    monkeypatch.setattr(saved, "written", broken)
    assert dlc("run", "save.dl")[0] == 1
    assert Path("s.npz").read_bytes() == before


def test_a_form_reads_back_as_it_was_written():
    form = decoded(
        '{"members":[{"name":"t","dtype":"T.0","axes":[],"variants":[],"under":[]}],"types":{"T.0":[{"name":"A","own":1,'
        '"literals":[2],"members":[{"name":"w","dtype":"f64","axes":[0,1],"variants":[],"under":[]}]}]}}'
    )
    assert decoded(encoded(form)) == form and form.types["T.0"][0].members[0].axes == (0, 1)


def test_a_text_that_numpy_would_shorten_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    form = '{"members":[{"name":"value","dtype":"str","axes":[],"variants":[],"under":[]}],"types":{}}'
    with pytest.raises(RunError, match="NUL"):
        Host().effect("write_value", (form,), ["a.npz", "a\0"])
    assert not list(tmp_path.iterdir())


# ---- logs ------------------------------------------------------------------------------------------------------------
LOG = 'import io\nstruct Row {{ {fields} }}\nfn main() {{ io.log("run.csv", Row(1, 2.5)) }}\n'


@pytest.mark.parametrize("backend", ["cpu", "interp"])
def test_a_log_goes_on_where_an_earlier_run_left_it(write, dlc, backend):
    program = write(LOG.format(fields="epoch: i64, loss: f64"))
    for _ in range(2):
        assert dlc("run", "--backend", backend, program) == (0, "", "")
    assert Path("run.csv").read_text() == "epoch,loss\n1,2.5\n1,2.5\n"


def test_texts_in_a_log_are_what_they_were(write, dlc):
    program = write(
        'import io\nfn main() { for t in ["True", "a,b", "c\\"d"] { io.log("run.csv", (t, true)) } }\n', "log.dl"
    )
    assert dlc("run", program) == (0, "", "")
    assert Path("run.csv").read_text() == '0,1\nTrue,true\n"a,b",true\n"c""d",true\n'


@pytest.mark.parametrize(
    "before, words",
    [
        (b"epoch,cost\n", "has the columns `epoch`, `cost`, and the row has `epoch`, `loss`"),
        (b"\n", "has the columns none, and"),
        (b"\xff", "no table"),
        (b"x" * 200_000, "no table"),
    ],
)
def test_a_log_with_other_columns_is_left_alone(write, dlc, before, words):
    Path(write("", "run.csv")).write_bytes(before)
    code, _, err = dlc("run", write(LOG.format(fields="epoch: i64, loss: f64")))
    assert code == 1 and "error[E0829]" in err and words in err
    assert Path("run.csv").read_bytes() == before


@pytest.mark.parametrize(
    "before, kept",
    [
        (b"epoch,loss", b"epoch,loss\n"),
        (b"epoch,loss\n0,3.", b"epoch,loss\n0,3.\n"),
        (b"\xef\xbb\xbfepoch,loss\r\n0,3\r\n", b"\xef\xbb\xbfepoch,loss\r\n0,3\r\n"),
        (b'"epoch",loss\n', b'"epoch",loss\n'),
    ],
    ids=["columns alone", "cut short", "of a spreadsheet", "quoted"],
)
def test_a_row_is_a_line_of_its_own_whatever_wrote_the_table(write, dlc, before, kept):
    Path(write("", "run.csv")).write_bytes(before)
    assert dlc("run", write(LOG.format(fields="epoch: i64, loss: f64"))) == (0, "", "")
    assert Path("run.csv").read_bytes() == kept + b"1,2.5\n"


def test_a_log_that_cannot_be_written_is_a_message(write, dlc):
    code, _, err = dlc("run", write(LOG.format(fields="a: i64, b: f64").replace("run.csv", "no/such.csv")))
    assert code == 1 and "error[E0822]" in err and "no/such.csv" in err


KEYWORDS = """
import io
struct Edge { from: i64, lambda': f64 }
enum Path { End(f64), Step(from: Path, del: Edge) }
struct State { edge: Edge, path: Path }
fn length(p: Path) -> f64 = match p { End(x) => x, Step(rest, e) => e.lambda' + length(rest) }
"""


def test_fields_have_their_names_of_the_language_and_files_with_those_of_python_are_read(write, dlc):
    """A field `from` is `from_` in Python, and was so in the files of earlier versions."""
    made = "State(edge = Edge(1, 0.5), path = Step(Step(End(1.0), Edge(2, 0.25)), Edge(3, 0.125)))"
    assert dlc("run", write(f'{KEYWORDS}fn main() {{ io.save("s.npz", {made}) }}\n', "save.dl")) == (0, "", "")
    with np.load("s.npz") as archive:
        members = {name: archive[name] for name in archive.files}
    assert {"edge.from", "edge.lambda'", "Path.Step.from", "Path.Step.del.from", "Path.End.0"} <= members.keys()
    body = 'let s: State = io.load("s.npz"); print("{s.edge} {length(s.path)}")'
    load = write(f"{KEYWORDS}fn main() {{ {body} }}\n", "load.dl")
    wanted = (0, "Edge(from = 1, lambda' = 0.5) 1.375\n", "")
    assert dlc("run", load) == wanted
    former = {"from": "from_", "lambda'": "lambda_", "del": "del_"}

    def renamed(name):
        return ".".join(former.get(part, part) for part in name.split(".")).replace("End.0", "End._0")

    page = json.dumps(said())
    for a, b in (("from", "from_"), ("lambda'", "lambda_"), ("del", "del_")):
        page = page.replace(f'"{a}', f'"{b}').replace(f".{a}", f".{b}")
    changed(page.replace('"0"', '"_0"').encode(), **{name: None for name in members if renamed(name) != name})
    changed(**{renamed(name): array for name, array in members.items() if renamed(name) != name})
    with np.load("s.npz") as archive:
        assert set(archive.files) == set(map(renamed, members))
    assert dlc("run", load) == wanted


def test_a_device_is_no_log(write, dlc):
    code, _, err = dlc("run", write(LOG.format(fields="a: i64, b: f64").replace("run.csv", "/dev/zero")))
    assert code == 1 and "error[E0829]: `/dev/zero` is no table" in err


def test_a_damaged_file_is_closed(tmp_path, recwarn):

    file = tmp_path / "f"
    for write in (lambda out: np.savez(out, x=np.ones(50)), lambda out: np.save(out, np.ones(50))):
        with open(file, "wb") as out:
            write(out)
        whole = file.read_bytes()
        for damaged in (whole[:-30], whole[:40], whole[:70] + b"\0\0\0" + whole[73:], b"PK\3\4", b""):
            file.write_bytes(damaged)
            for read in (
                lambda: effects.member(str(file), "x", "f64", "1"),
                lambda: effects.array(str(file), "f64", "1"),
            ):
                with suppress(RunError):
                    read()
    gc.collect()
    assert not [w for w in recwarn if issubclass(w.category, ResourceWarning)]
