"""Programs that run without the compiler: `dlc build`.

`exports` chooses the functions and compiles them, `sizes` plans how their sizes follow from arguments. `interface` and
`program` write them as C, which `toolchain` compiles and links with the runtime in c/: `shared` makes a library of it,
`executable` a program. `archive` is a file that Python loads without the compiler, `wheel` a package around one.
"""
