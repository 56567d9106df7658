"""The help for each code of an error, where its message has none that is more precise."""

from __future__ import annotations

REMEDIES = {
    # ---- grammar
    "E0101": "complete the line, or leave out what is too much",
    "E0102": "add the bracket that closes it",
    "E0103": 'end the string by `"` on its line',
    "E0104": "leave the character out, or put it into a string or a comment",
    "E0106": "leave the bracket out, or add the one that it belongs to",
    "E0109": "write a number that the dtype holds, or another dtype",
    # ---- names
    "E0201": "declare it, or import the module that has it",
    "E0202": "give one of the two another name",
    "E0203": "write the name of a file beside this one, or of a module of the library",
    "E0205": "use what the module offers; a name without `_` in front is one of these",
    "E0207": "declare the type, or write the name of one that is there",
    "E0208": "declare it by `var` to change it, or bind a new name by `let`",
    "E0209": "the value of a block is its last expression: leave the word out",
    "E0212": "write a value, as `f(x)` or a name that `let` has bound",
    "E0213": "give the size and the type names that differ",
    "E0214": "break the circle: one of them has to be known without the other",
    "E0290": "divide it into several functions, or use a loop",
    # ---- types
    "E0301": "change one of the two types; `f64(x)` converts a number",
    "E0302": "pass what the operation works on; `f64(x)` converts a number",
    "E0303": "write as many arguments as it takes",
    "E0304": "what contains itself is a struct or an enum",
    "E0305": "a struct has the fields that it declares, a tuple `.0`, `.1` and so on",
    "E0306": "leave the parentheses out, or call a function",
    "E0307": "write arguments by position first, then those by name, each once",
    "E0314": "write the arguments as the declaration has them: types, sizes and shapes in its order",
    # ---- sizes
    "E0401": "make the sizes equal; one that is known only when it runs is stated by `x as f64[n]`",
    "E0402": "pass an array with as many axes: `reshape(x, n, 1)` adds one, `x[i]` takes one away",
    "E0404": "state it by `x as f64[2 * n]`, which is checked when it runs",
    "E0405": "declare a parameter for it: `n: size`",
    "E0407": "use what has the size where the size is known",
    "E0410": "axes that meet are equal, or one of them is 1: `reshape(x, n, 1)` adds one",
    "E0411": "write the types of the parameters and of the result",
    "E0415": "the least size is 0",
    "E0416": "leave one `..s` in the shape",
    "E0417": "`//` rounds down",
    "E0419": "check it when it runs: `i as Idx<n>`",
    "E0420": "take a lambda that checks the index: `|i| f(i as Idx<n>)`",
    # ---- patterns
    "E0501": "add the arms that are missing, or `_ => …`",
    "E0502": "leave the arm out, or move it to the front",
    "E0503": "write one pattern for each field",
    "E0505": "bind the same names in each alternative, or write two arms",
    # ---- derivatives
    "E0701": "let the function give floats, as `f64(x)` does",
    "E0702": "name parameters that have floats: `wrt = x`",
    "E0703": "write the function, then its parameters by name: `grad(f, wrt = x)`",
    "E0706": "give what has the variant and the sizes of the value",
    "E0712": "sum over the outcomes, each by its probability, to have that part as well",
    "E0790": "differentiate inside of the function, where its values are numbers",
    # ---- runs
    "E0800": "find out by the values why it does not hold, or treat that case before",
    "E0801": "ask first: `if 0 <= i and i < len(x) { … }`",
    "E0802": "a size is at least 0, as `maximum(k, 0)` is, and no step is 0",
    "E0803": "ask first: `if k != 0 { … }`",
    "E0804": "compute with floats: `f64(x) ** k`",
    "E0805": "use a loop, or see that the recursion ends",
    "E0806": "take smaller sizes, or reduce where no array is needed: `sum(f(i) for i < n)`",
    "E0807": "see that the sizes fit before, or write `?` for one that may be any",
    "E0808": "ask first: `if len(x) > 0 { … }`",
    "E0809": "look for the cause in that function",
    "E0810": "have the function give what was declared, or declare what it gives",
    "E0821": "see whether the file is there, is whole, and may be read",
    "E0822": "choose a place that may be written to",
    "E0823": "name one of the arrays that the file has",
    "E0824": "declare the number of axes that the file has",
    "E0825": "declare the dtype that the file has, and convert: `f64(x)`",
    "E0826": "mend the cell, or declare another dtype",
    "E0827": "write as many cells in each line",
    "E0828": "read the file as the type that it was saved as",
    "E0829": "write the log to another file, or move the old one",
    "E0831": "add a little to the diagonal, or look where the matrix comes from",
    "E0832": "look whether rows depend on each other; `linalg.lstsq` needs no inverse",
    "E0833": "look for a NaN or an infinity in the matrix",
    # ---- tools
    "E0951": "see whether the file is there and may be read",
    "E0957": "write `--size n=5`, or `--size 5` for all",
    "E0960": "pass what the type asks for",
    "E0962": "differentiate a function that gives one float, in parameters that have floats",
    "E0963": "leave `backend` out for native code",
    "E0971": "`:help` shows how it is written",
    "E0980": "`:help` shows what can be set and taken back",
    "E0981": "draw arrays of numbers with equal lengths, into a file that may be written",
    "E0984": "write another expression, or look at the parts of the value",
    "E0986": "name functions by `--fn NAME`, or write a `main` for `--exe`",
    "E0987": "write out the types of what C is to call, and leave functions of Python out",
    "E0988": "install a C compiler, or name one by `CC`",
    "E0997": "give a table of comma-separated numbers with a line of names",
    "E0998": "pass numbers, texts and arrays",
}  # fmt: skip
"""Short and concrete; by code."""


def remedy(code: str) -> tuple[str, ...]:
    """The help for a message of a code that has none of its own."""
    return (REMEDIES[code],) if code in REMEDIES else ()
