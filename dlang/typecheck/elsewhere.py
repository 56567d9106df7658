"""Names of other languages and libraries: what stands for them here."""

from __future__ import annotations


def _each(table: dict[str, str]) -> dict[str, str]:
    """A key for each of the words of the keys."""
    return {name: instead for names, instead in table.items() for name in names.split()}


_MODULES = frozenset("np numpy jnp jax torch tf scipy sp tensorflow".split())

# Values and functions, with what is written instead.
_VALUES = _each(
    {
        "null nil undefined none NULL nothing": "a value that may be missing is `None` of an `Option`",
        "println printf echo puts console cout display": "write `print(x)`",
        "range": "a loop over integers is written `for i in 0..n`, or `for i < n`",
        "arange": "the integers below n are `iota(n)`, or `[i for i in a..b by s]`",
        "int": "a conversion is named after the dtype: `i64(x)`",
        "float double Float64 float64": "a conversion is named after the dtype: `f64(x)`",
        "float32 Float32": "a conversion is named after the dtype: `f32(x)`",
        "string repr format to_string": 'a text with a value in it is `"{x}"`',
        "pow": "write `x ** y`",
        "matmul dot mm bmm": "write `x @ y`",
        "length numel ndims": "the size of the first axis is `len(x)`, all of them are `shape(x)`",
        "size": "the size of the first axis is `len(x)`, all of them are `shape(x)`; a size variable is a value, too",
        "array tensor asarray Array vec": "an array is written `[a, b, c]`",
        "zeros_like ones_like full_like": "write `[0.0 for v in x]`, or `0.0 * x`",
        "append push hstack vstack concatenate cat extend": "write `concat(x, y)`, or `concat(x, [v])`",
        "filter": "write `[v for v in x if condition]`",
        "sorted sortperm": "write `sort(x)`, or `argsort(x)`",
        "reversed": "write `reverse(x)`",
        "nonzero findall flatnonzero": "write `[i for i < n if condition]`",
        "einsum": "write it as a comprehension: `[sum(a[i, k] * b[k, j] for k) for i, j]`",
        "isinstance": "the type of a value is known before the program runs; an enum is taken apart by `match`",
        "pass noop": "an empty body is `{ }`",
        "assert_eq assert_equal assertEqual": "write `assert a == b`",
        "raise throw panic error exit": 'write `fail("message")`',
        "self this": "there are no methods: a function takes the value as a parameter",
        "end": "the last element is `x[len(x) - 1]`, and `x[a..]` goes to the end",
        "ifelse": "write `where(condition, a, b)`",
        "fabs absolute": "write `abs(x)`",
        "ln": "write `log(x)`",
        "arcsin arccos arctan arctan2": "the inverse functions are `asin`, `acos`, `atan` and `atan2`",
        "power": "write `x ** y`",
        "amax": "write `max(x)`",
        "amin": "write `min(x)`",
        "inv": "write `linalg.inverse(a)`, or better `linalg.solve(a, b)`",
        "gradient": "write `grad(f)`",
        "derivative": "write `grad(f)`",
        "vmap pmap": "write a comprehension: `[f(x) for x in xs]`",
        "jit": "nothing has to be said: a function is compiled when it is first called",
        "fori_loop while_loop": "write a loop: `for i < n { }`, or `while condition { }`",
        "jacfwd jacrev": "write `jacobian(f)`",
        "remat": "write `checkpoint(f)`",
        "custom_vjp custom_jvp": "a rule stands beside the function: `pullback f(x) -> y = |dy| …`",
        "no_grad detach": "write `stop_gradient(x)`",
        "tqdm trange": "a loop shows how far it is with `progress`: `for i < progress(n) { }`",
        "odeint solve_ivp": "it is `ode.solve(f, start, times)`, with `import ode`",
        "eye": "it is `linalg.identity(n)`, with `import linalg`",
        "std stdev stddev": "it is `stats.standard_deviation(x)`, with `import stats`",
        "complex Complex complex64 complex128 c64 c128": "there are no complex numbers: use pairs",
        "fft ifft rfft irfft": 'there is no Fourier transform: call one of Python, as `extern "python:numpy.fft.rfft"`',
        "mod fmod remainder modulo": "the remainder is `x % y`",
        "dict Dict Map HashMap": "there are no dictionaries: an array can hold pairs, `(str, f64)[n]`",
        "split join strip substring": 'texts can\'t be taken apart: call a function of Python by `extern "python:…"`',
    }
)

# Types, with what is written instead.
TYPES = _each(
    {
        "int Int Int64 int64 long isize": "write `i64`",
        "float Float64 float64 double Double Real real number Number": "write `f64`",
        "Float32 float32": "write `f32`",
        "Int32 int32": "write `i32`",
        "uint usize uint64": "write `u64`, or `size` for the size of an array",
        "string String Str": "write `str`",
        "boolean Bool Boolean logical": "write `bool`",
        "Float": "`Float` is a class of dtypes: write `f64`, or `fn f<a: Float>(x: a)`",
        "Num Ord Eq Vector": "this is a class of dtypes: write `fn f<a: Num>(x: a)`",
        "Vec vec Array array Vector64 vector Tensor tensor": "an array is written `f64[n]`, a matrix `f64[n, m]`",
        "ndarray NDArray Matrix matrix Slice": "an array is written `f64[n]`, a matrix `f64[n, m]`",
        "List list": "an array is written `f64[n]`; with `import data` there is `data.List<…>`, too",
        "Callable callable Function function Fn func": "a function is written `f64 -> f64`, or `(f64, f64) -> f64`",
        "Tuple tuple Pair pair": "a tuple is written `(f64, f64)`",
        "Dict dict HashMap Map map": "there are no dictionaries: an array can hold pairs, `(str, f64)[n]`",
        "None Unit unit Void void": "write `()`",
        "Optional optional Maybe maybe option": "write `Option<…>`",
        "complex Complex complex128": "there are no complex numbers: use pairs",
        "char text": "write `str`",
    }
)

# Methods and fields of arrays and other values, with what is written instead; `{}` is the value.
_METHODS = {
    "T": "transpose({})",
    "append": "concat({}, [v])",
    "push": "concat({}, [v])",
    "size": "len({})",
    "length": "len({})",
    "ndim": "shape({})",
    "dot": "{} @ y",
    "matmul": "{} @ y",
    "astype": "f32({})",
    "copy": "{}",
    "clone": "{}",
    "item": "{}[0]",
    "flatten": "reshape({}, n)",
    "ravel": "reshape({}, n)",
    "view": "reshape({}, n, m)",
    "backward": "grad(f)({})",
    "grad": "grad(f)({})",
    "pow": "{} ** k",
    "iter": "for v in {}",
    "map": "map(f, {})",
    "filter": "[v for v in {} if …]",
    "fold": "fold(f, init, {})",
    "to_string": '"{{{}}}"',
    "format": '"{{{}}}"',
}


# Named arguments, with what they are called here.
_ARGUMENTS = {"dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims", "rtol": "tol", "atol": "tol"}


_DESCENDING = "the elements in descending order are `reverse(sort(x))`"
_WITHOUT_ARGUMENT = {
    "reverse": _DESCENDING,
    "descending": _DESCENDING,
    "key": "`x[argsort(keys)]` has the elements in the order of their keys",
}


def of_argument(name: str, known: list[str]) -> tuple[str, ...]:
    """Suggests what stands here for an argument of another library: another name, or another way to say it."""
    meant = _ARGUMENTS.get(name)
    if meant in known:
        return (f"it is called `{meant}` here",)
    return (_WITHOUT_ARGUMENT[name],) if name in _WITHOUT_ARGUMENT else ()


def of_value(name: str) -> str | None:
    """Suggests a replacement for a name that is none here; None where nothing is known of it."""
    if name in _MODULES:
        return "arrays and their functions are part of the language: `zeros(n)`, `sum(x)`, `exp(x)`"
    return _VALUES.get(name)


def of_module(name: str) -> str | None:
    """The same of a module that is imported."""
    first = name.partition(".")[0]
    if first in _MODULES:
        return "arrays and their functions are part of the language; a function of Python is declared by `extern`"
    return None


def of_method(name: str, receiver: str) -> str | None:
    """Suggests a replacement for `receiver.name`."""
    form = _METHODS.get(name)
    return form.format(receiver) if form is not None else None
