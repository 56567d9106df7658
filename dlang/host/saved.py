"""Values in files: an `.npz` archive whose arrays are the leaves of a value, and a page that says what it is."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from dlang.host.classes import fields_of, written_fields
from dlang.host.errors import RunError
from dlang.host.half import bf16_of_bits, bits_of_bf16
from dlang.ir.crossing import Branch, Choice, Fields, Items, Leaf, Node, Part, Rows, Tree, Trees
from dlang.lazy_modules import lazy_module, np
from dlang.ops.dtypes import DTYPES, TRUNCATED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Nodes = Mapping[str, Mapping[int, Node]]
    from dlang.host import values
else:
    values = lazy_module("dlang.host.values")


# ---- contents --------------------------------------------------------------------------------------------------------
# Describes a value in a file: its leaves by their names, without types of the language.

Names = Callable[[type | None], Sequence[str]]
"""A function that lists the names of a class's fields."""


@dataclass(frozen=True, slots=True)
class Member:
    """A leaf. axes: their number or, in a node, which of its sizes each is. variants: of an enum whose tag this is.

    under: the tags that have to be such numbers for it to count, by the names of their members, the outermost first.
    """

    name: str
    dtype: str
    axes: tuple[int, ...] = ()
    variants: tuple[str, ...] = ()
    under: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A variant of a type that contains itself: `own` sizes, then the members, whose axes are among these and the
    `literals` behind them."""

    name: str
    own: int
    literals: tuple[int, ...]
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """The leaves of a value in order, and the types of the nodes among them by their dtypes.

    former: the same under the names that fields have in Python, where these are others: so earlier versions wrote it.
    """

    members: tuple[Member, ...]
    types: dict[str, tuple[Case, ...]]
    former: Form | None = None


def form_of(part: Part, trees: Trees) -> Form:
    """Returns the form of a value, as it is known when the program is compiled."""
    form = _form(part, trees, written_fields, lambda branch: written_fields(branch.type))
    former = _form(part, trees, _former_fields, lambda branch: branch.names)
    return form if form == former else replace(form, former=former)


def _form(part: Part, trees: Trees, names: Names, of_node: Callable[[Branch], Sequence[str]]) -> Form:
    types = {dtype: tuple([_case(b, of_node(b), names) for b in branches]) for dtype, branches in trees.items()}
    return Form(tuple(_members(part, "", names)), types)


def _former_fields(kind: type | None) -> tuple[str, ...]:
    return tuple([name[1:] if name == f"_{k}" else name for k, name in enumerate(fields_of(kind))])


def encoded(form: Form) -> str:
    return json.dumps(asdict(form), separators=(",", ":"))


def decoded(text: str) -> Form:
    """The inverse of `encoded`."""
    return _decoded_form(json.loads(text))


def _decoded_form(given: Mapping[str, Any]) -> Form:
    types = {
        dtype: tuple([Case(c["name"], c["own"], tuple(c["literals"]), _decoded(c["members"])) for c in cases])
        for dtype, cases in given["types"].items()
    }
    former = given.get("former")
    return Form(_decoded(given["members"]), types, None if former is None else _decoded_form(former))


def _decoded(members: Sequence[Mapping[str, Any]]) -> tuple[Member, ...]:
    return tuple([_member(**m) for m in members])


def _member(name: str, dtype: str, axes: list[int], variants: list[str], under: list[tuple[str, int]]) -> Member:
    return Member(name, dtype, tuple(axes), tuple(variants), tuple([(tag, number) for tag, number in under]))


def _members(
    part: Part, prefix: str, names: Names, front: tuple[int, ...] = (), under: tuple[tuple[str, int], ...] = ()
) -> Iterator[Member]:
    match part:
        case Leaf(dtype, shape):
            yield Member(prefix or "value", dtype, front + shape, under=under)
        case Tree(dtype):
            yield Member(prefix or "value", dtype, front, under=under)
        case Rows(shape, element):
            yield from _members(element, prefix, names, front + shape, under)
        case Items(items):
            for k, item in enumerate(items):
                yield from _members(item, _dotted(prefix, str(k)), names, front, under)
        case Fields(type, items):
            for name, item in zip(names(type), items, strict=True):
                yield from _members(item, _dotted(prefix, name), names, front, under)
        case Choice(types, variants):
            tag, all_names = _dotted(prefix, "tag"), tuple([_name(t) for t in types])
            yield Member(tag, "i64", front, all_names, under)
            for k, (variant, name, items) in enumerate(zip(types, all_names, variants, strict=True)):
                for field, item in zip(names(variant), items, strict=True):
                    yield from _members(item, _dotted(_dotted(prefix, name), field), names, front, (*under, (tag, k)))
        case _:
            raise AssertionError("a function has no form in a file")


def _case(branch: Branch, fields: Sequence[str], names: Names) -> Case:
    members = [m for name, item in zip(fields, branch.items, strict=True) for m in _members(item, name, names)]
    return Case(_name(branch.type) if branch.type else "None", branch.own, branch.literals, tuple(members))


def _name(type: type | None) -> str:
    return "None" if type is None else type.__name__


def _dotted(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def titles(form: Form) -> dict[str, str]:
    """Returns the names of node types in a file, by their dtypes; equal names are numbered."""
    out: dict[str, str] = {}
    for dtype in form.types:
        name = dtype.rpartition(".")[0] or dtype
        same = sum(t.partition("#")[0] == name for t in out.values())
        out[dtype] = f"{name}#{same + 1}" if same else name
    return out


def page(form: Form) -> dict[str, Any]:
    """Returns an archive's description of its value beside the arrays: the variants of enums, the members of nodes."""
    named = titles(form)
    types = {
        named[d]: {c.name: {m.name: named.get(m.dtype, m.dtype) for m in c.members} for c in cases}
        for d, cases in form.types.items()
    }
    return {"variants": _variants(form.members), "types": types}


def _variants(members: Sequence[Member]) -> dict[str, list[str]]:
    return {m.name: list(m.variants) for m in members if m.variants}


# ---- files -----------------------------------------------------------------------------------------------------------
# Values in files: an `.npz` archive whose arrays are the leaves of a value, and a page that says what it is.
#
# A number, a text or an array is one member of the archive, under the names of the fields that lead to it (`hidden.w`);
# an enum is the member `NAME.tag`, numbered as the page names the variants, and the fields of all variants, of which
# those of others are zeros. A value of a type that contains itself is the number of a node. Nodes are numbered so that
# one holds only such as have smaller numbers; what those of a variant hold is in columns, `Tree.Node.left`, a row for
# each. Arrays in nodes follow one another in one row, and their sizes are beside them (`Tree.Node.w.axes`).
#
# The page is JSON in the comment of the archive, where NumPy sees nothing of it. Archives that NumPy wrote, which have
# none, are read in the same way.

VERSION = 1
LONGEST = 65_535  # bytes of the comment of an archive
WRONG_FORM = "E0828"


# ---- writing ---------------------------------------------------------------------------------------------------------
def write(out: IO[bytes], form: Form, leaves: Sequence[Any]) -> None:
    """Writes a value. Raises `RunError` for a text that NumPy would shorten."""
    named = titles(form)
    nodes = _Nodes(form)
    arrays: dict[str, Array] = {}
    for m, leaf in zip(form.members, leaves, strict=True):
        arrays[m.name] = nodes.numbers(leaf, m.dtype) if m.dtype in form.types else written(leaf, numpy_dtype(m.dtype))
    for dtype, cases in form.types.items():
        title = named[dtype]
        mine = [(k, n) for k, (n, d) in enumerate(nodes.made) if d == dtype]
        arrays[f"{title}.node"] = np.array([k for k, _ in mine], np.int64)
        arrays[f"{title}.tag"] = np.array([n.tag for _, n in mine], np.int64)
        for tag, case in enumerate(cases):
            held = [n.fields for _, n in mine if n.tag == tag]
            for j, m in enumerate(case.members):
                column: Any = [fields[case.own + j] for fields in held]
                if m.dtype in form.types:
                    column = [nodes.numbers(x, m.dtype) for x in column] if m.axes else nodes.all(column, m.dtype)
                name = f"{title}.{case.name}.{m.name}"
                arrays |= _column(name, m, column, m.dtype in form.types)
    text = page_text(form).encode()
    if len(text) > LONGEST:
        raise RunError(CANNOT_WRITE, "the types of this value have too many variants to be described in a file")
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        archive.comment = text


def write_array(out: IO[bytes], value: Any) -> None:
    """Writes a file of one array, without a name."""
    np.lib.format.write_array(out, written(value), allow_pickle=False)


def page_text(form: Form) -> str:
    """Returns an archive's page, which describes the value in it, as JSON."""
    return json.dumps({"dlang": VERSION, **page(form)}, separators=(",", ":"))


class _Nodes:
    """made: the nodes of a value with their dtypes, those that a node holds before it."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.made: list[tuple[Node, str]] = []
        self._number: dict[tuple[Node, str], int] = {}  # nodes without fields are one in all types

    def numbers(self, leaf: Any, dtype: str) -> Array:
        """The numbers of the nodes of a leaf."""
        if not isinstance(leaf, np.ndarray):
            return self.all([leaf], dtype).reshape(())
        return self.all(leaf.reshape(-1), dtype).reshape(leaf.shape)

    def all(self, nodes: Iterable[Node | None], dtype: str) -> Array:
        """Their numbers; -1 for null."""
        for node in nodes:
            self._visit(node, dtype)
        return np.array([-1 if n is None else self._number[n, dtype] for n in nodes], np.int64)

    def _visit(self, root: Node | None, dtype: str) -> None:
        work: list[tuple[Node, str, bool]] = [] if root is None else [(root, dtype, False)]
        while work:
            node, name, ready = work.pop()
            if (node, name) in self._number:
                continue
            if ready:
                self._number[node, name] = len(self.made)
                self.made.append((node, name))
                continue
            work.append((node, name, True))
            case = self.form.types[name][node.tag]
            for m, value in zip(case.members, node.fields[case.own :], strict=True):
                if m.dtype in self.form.types:
                    held = [value] if value is None or isinstance(value, Node) else list(value.reshape(-1))
                    work += [(h, m.dtype, False) for h in held if h is not None]


def _column(name: str, m: Member, values: Sequence[Any], numbered: bool) -> dict[str, Array]:
    """Returns the arrays of one field of a variant's nodes, by their names in the archive."""
    kind = np.dtype(np.int64) if numbered else numpy_dtype(m.dtype)
    if not m.axes:
        return {name: written(np.array(values, kind))}
    axes = np.array([np.shape(v) for v in values], np.int64).reshape(len(values), len(m.axes))
    flat = np.concatenate([np.zeros(0, kind), *[np.asarray(v, kind).reshape(-1) for v in values]])
    return {name: written(flat), f"{name}.axes": axes}


# ---- reading ---------------------------------------------------------------------------------------------------------
Arrays = Callable[[str], "Array"]


def read(form: Form, arrays: Arrays, said: Mapping[str, Any] | None) -> list[Any]:
    """For each leaf of a value the sizes of its axes, then itself.

    arrays: gives a member of the archive, or raises. said: its page, if it has one. Raises `RunError` if the archive
    holds something else, or contradicts itself.
    """
    _compare(form, said)
    nodes = _read_nodes(form, arrays) if form.types else {}
    out: list[Any] = []
    tags: dict[str, Array] = {}
    for m in form.members:
        value = _values(m.name, m, ranked(arrays(m.name), len(m.axes), m.name), nodes, tags)
        out += [*value.shape, value] if m.axes else [value.reshape(1)[0]]
    return out


def as_stored(form: Form, held: Container[str]) -> Form:
    """The form whose names an archive has. held: its members."""
    former = form.former
    return form if former is None or not all(name in held for name in _stored_names(former)) else former


def _stored_names(form: Form) -> Iterator[str]:
    """The members of an archive."""
    for m in form.members:
        yield m.name
    for dtype, title in titles(form).items():
        for case in form.types[dtype]:
            for m in case.members:
                yield f"{title}.{case.name}.{m.name}"


def said(comment: bytes) -> dict[str, Any] | None:
    """The page in the comment of an archive, if it is one; raises `RunError` if it makes no sense."""
    if not comment.startswith(b'{"dlang":'):
        return None
    try:
        page = dict(json.loads(comment))
        if page["dlang"] == VERSION:
            variants = [list(names) for names in page["variants"].values()]
            members = [m.items() for cases in page["types"].values() for m in cases.values()]
            if not all(isinstance(x, str) for x in chain(*variants, *chain(*members))):
                raise TypeError
        return page
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise RunError(CANNOT_READ, "it is damaged: what it says of itself makes no sense") from None


def _compare(form: Form, said: Mapping[str, Any] | None) -> None:
    """Variants are numbered, and nodes are in columns: so they have to be those that the program knows."""
    if said is None:
        if form.types:
            raise RunError(WRONG_FORM, "a value that contains itself is read from what `io.save` wrote")
        return
    if said.get("dlang") != VERSION:
        version = said.get("dlang")
        raise RunError(
            WRONG_FORM, f"it is of the version {version} of its kind, and this dlang reads version {VERSION}"
        )
    wanted = page(form)
    for name, variants in wanted["variants"].items():
        _same(f"`{name}`", variants, said["variants"].get(name, variants))
    for title, cases in wanted["types"].items():
        there = said["types"].get(title, {})
        _same(f"the type `{title}`", list(cases), list(there))
        for name, members in cases.items():
            _same(f"`{name}` of `{title}`", *([f"{m}: {t}" for m, t in x.items()] for x in (members, there[name])))


def _same(what: str, wanted: Sequence[str], parts_found: Sequence[str]) -> None:
    if list(wanted) != list(parts_found):
        message = f"{what} has other parts in the file ({listed(parts_found)}) than in the program ({listed(wanted)})"
        raise RunError(WRONG_FORM, message)


def listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{n}`" for n in names) or "none"


def _values(name: str, m: Member, stored: Array, nodes: Nodes, tags: dict[str, Array]) -> Array:
    """Returns a stored member in the form of run leaves. tags: of the members before it in the value or the node."""
    if m.dtype in nodes:
        out = np.empty(stored.shape, object)
        numbers = stored.reshape(-1).tolist()
        whole = stored.dtype.kind in "iu"
        if not all(whole and (k == -1 or k in nodes[m.dtype]) for k in numbers):
            raise RunError(CANNOT_READ, f"it is damaged: `{name}` names a node that is not there")
        out.reshape(-1)[:] = [None if k == -1 else nodes[m.dtype][k] for k in numbers]
        missing = np.array([k == -1 for k in numbers], np.bool_).reshape(stored.shape)
        for tag, number in m.under:
            chosen = tags[tag] == number
            if chosen.shape != missing.shape[: chosen.ndim]:
                raise RunError(CANNOT_READ, f"it is damaged: `{name}` does not have its size")
            missing = missing & chosen.reshape(*chosen.shape, *[1] * (missing.ndim - chosen.ndim))
        if missing.any():
            raise RunError(CANNOT_READ, f"it is damaged: `{name}` lacks a node")
        return out
    array = _plain(name, m, stored)
    if m.variants:
        tags[m.name] = array
    return array


def _plain(name: str, m: Member, stored: Array) -> Array:
    """Returns the array of a member that holds no nodes, checked."""
    array = taken(stored, m.dtype, name)
    if m.variants and not np.isin(array, np.arange(len(m.variants))).all():
        raise RunError(CANNOT_READ, f"it is damaged: `{name}` is the number of no variant")
    return array


def _read_nodes(form: Form, arrays: Arrays) -> dict[str, dict[int, Node]]:
    """The nodes of each type by their numbers: one after another, so that none can hold itself."""
    named = titles(form)
    nodes: dict[str, dict[int, Node]] = {dtype: {} for dtype in form.types}
    columns = {
        dtype: [_Columns(f"{named[dtype]}.{c.name}", c, arrays, form.types) for c in cases]
        for dtype, cases in form.types.items()
    }
    order: list[tuple[int, str, int]] = []
    for dtype in form.types:
        numbers, tags = (_row(f"{named[dtype]}.{what}", arrays, "iu").tolist() for what in ("node", "tag"))
        if len(numbers) != len(tags) or not all(0 <= t < len(columns[dtype]) for t in tags):
            raise RunError(CANNOT_READ, f"it is damaged: `{named[dtype]}.tag` is the number of no variant")
        order += [(k, dtype, tag) for k, tag in zip(numbers, tags, strict=True)]
    for k, dtype, tag in sorted(order):
        nodes[dtype][k] = Node(tag, columns[dtype][tag].row(nodes))
    return nodes


def _row(name: str, arrays: Arrays, kinds: str = "", rank: int = 1) -> Array:
    """A member with so many axes. kinds: of the dtypes that it may have, unless any will do."""
    arrays_of_row = arrays(name)
    if arrays_of_row.ndim != rank or (kinds and arrays_of_row.dtype.kind not in kinds):
        raise RunError(CANNOT_READ, f"it is damaged: `{name}` is no array of its kind")
    return arrays_of_row


class _Columns:
    """The stored fields of a variant's nodes; rows are taken in order. All that is no node is read at once."""

    def __init__(self, name: str, case: Case, arrays: Arrays, types: Container[str]) -> None:
        self.case, self.taken = case, 0
        self.names = [f"{name}.{m.name}" for m in case.members]
        self.columns = [
            _row(name, arrays) if m.dtype in types else _plain(name, m, _row(name, arrays))
            for name, m in zip(self.names, case.members, strict=True)
        ]
        self.sizes = [
            _row(f"{name}.axes", arrays, "iu", 2).tolist() if m.axes else None
            for name, m in zip(self.names, case.members, strict=True)
        ]
        self.starts = [0 for _ in case.members]

    def row(self, nodes: Nodes) -> tuple[Any, ...]:
        """The fields of the next node: its own sizes, then its members."""
        case = self.case
        sizes: list[int | None] = [*[None] * case.own, *case.literals]
        values: list[Any] = []
        tags: dict[str, Array] = {}
        for j, m in enumerate(case.members):
            name, column, of_all = self.names[j], self.columns[j], self.sizes[j]
            start = self.taken if of_all is None else self.starts[j]
            shape = of_all[self.taken] if of_all is not None and self.taken < len(of_all) else []
            end = start + math.prod(shape)
            fits = len(shape) == len(m.axes) and min(shape, default=0) >= 0 and end <= len(column)
            for k, n in zip(m.axes, shape, strict=False):
                if sizes[k] is None:
                    sizes[k] = n
                fits = fits and sizes[k] == n
            if not fits:
                raise RunError(CANNOT_READ, f"it is damaged: `{name}` does not have its size")
            part = column[start:end].reshape(shape) if m.axes else column[start]
            if m.dtype in nodes:
                part = _values(name, m, np.asarray(part), nodes, tags)
            elif m.variants:
                tags[m.name] = np.asarray(part)
            values.append(part if m.axes or m.dtype not in nodes else part.reshape(1)[0])
            self.starts[j] = end
        self.taken += 1
        return (*[np.int64(n or 0) for n in sizes[: case.own]], *values)


# ---- arrays in files -------------------------------------------------------------------------------------------------
# Arrays in files of NumPy: as they are written there, and what is read as the dtype that a program asks for.

CANNOT_READ, CANNOT_WRITE, WRONG_RANK, WRONG_DTYPE = "E0821", "E0822", "E0824", "E0825"


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """The dtype of NumPy in which the leaves of a run are: what it does not have in float32, texts as objects."""
    return np.dtype(DTYPES[dtype].numpy)


def written(value: Any, dtype: np.dtype[Any] | None = None) -> Array:
    """A leaf of a run as it is written. dtype: in which it is, if that is not to be seen from it.

    Raises `RunError` for a text that NumPy would shorten.
    """
    array = np.asarray(value, object if isinstance(value, str) else dtype)
    if array.dtype != object:
        return array
    if any(str(t).endswith("\0") for t in array.reshape(-1)):
        raise RunError(CANNOT_WRITE, "a text that ends in NUL cannot be saved: NumPy would leave that out")
    return array.astype(str)


def ranked(array: Array, rank: int, what: str) -> Array:
    """An array that has so many axes; else a `RunError`."""
    if array.ndim != rank:
        shape = ", ".join(map(str, array.shape))
        message = f"`{what}` has {_axes(array.ndim)} ([{shape}]), the program asks for {_axes(rank)}"
        raise RunError(WRONG_RANK, message)
    return array


def _axes(rank: int) -> str:
    return "1 axis" if rank == 1 else f"{rank} axes"


def taken(array: Array, dtype: str, what: str) -> Array:
    """An array that was stored, as the leaves of a run are, by rows, where no value changes; else a `RunError`."""
    name = values.dtype_name(array.dtype) or {"U": "texts", "S": "bytes"}.get(array.dtype.kind, array.dtype.name)
    if dtype == "str":
        if array.dtype.kind != "U":
            raise RunError(WRONG_DTYPE, f"`{what}` holds {name}, and the program asks for texts")
        return _texts(array, what)
    wanted = numpy_dtype(dtype)
    fits = np.can_cast(array.dtype, wanted, "safe")
    if not fits or (dtype in TRUNCATED and not _is_bf16(array.astype(wanted))):
        message = f"`{what}` holds {name}, which {dtype} cannot hold without loss; read it as what it is and convert it"
        raise RunError(WRONG_DTYPE, message)
    return np.ascontiguousarray(array, wanted).reshape(array.shape)


def _texts(array: Array, what: str) -> Array:
    if array.size and array.dtype.itemsize:
        codes = np.ascontiguousarray(array, array.dtype.newbyteorder("=")).reshape(-1).view(np.uint32)
        if (codes >= 0x110000).any() or (codes >> 11 == 0xD800 >> 11).any():
            raise RunError(CANNOT_READ, f"it is damaged: `{what}` holds what is no text")
    return array.astype(object)


def _is_bf16(array: Array) -> bool:
    flat = array.reshape(-1)
    return bool(np.array_equal(bf16_of_bits(bits_of_bf16(flat)), flat, equal_nan=True))
