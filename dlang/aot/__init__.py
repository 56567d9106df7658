"""Programs that run without the compiler: `dlc build`.

`exports` chooses the functions and compiles them. `interface`, `calls` and `program` write them as C, in the types of
`c_types`; `toolchain` compiles that and links it with the runtime in c/: `shared` makes a library of it, `executable` a
program. `archive` writes a file that Python loads without the compiler, `wheel` a package around one, with the `stubs`
of its types and a copy of what runs it (`vendor`).
"""
