"""Programs that run without the compiler: `dlc build`.

`exports` chooses the functions and compiles them. `interface`, `shared` and `program` write them as C; `toolchain`
compiles that and links it with the runtime in c/: `shared` makes a library of it, or a program. `archive` writes
a file that Python loads without the compiler, or a package around one, with the `stubs` of its types and a copy of what
runs it.

In c/ is what runtime/ is where Python is: `runtime.c` has contexts, stacks and threads, `host.c` what a program does to
the world, `messages.c` what has ended a run, `crossing.c` what crosses the border of a library. Values become text in
`text.c` and `arrays.c`; files are in `files.c`, `tables.c`, `npy.c`, `zip.c` with `inflate.c`, and whole values in
`saved.c` and `loaded.c` with `page.c`. `options.c` is the command line of a program. `forms` tells them what they have
to know of values in files.

Memory, threads and recursion are the same LLVM text here as in a process of Python. The processor that code is compiled
for need not be this one.
"""
