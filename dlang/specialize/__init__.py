"""Specialisation: typed core tree → monomorphic, first-order IR.

Takes checked functions and the types at which they are used, gives an `anf.Program` with one function per instance.
Tuples and structs are flattened to leaves, closures to what they capture, overloaded operators to comprehensions over
scalars, sizes to i64 parameters. It never optimises and never looks at values; derivatives stay as `Vjp` markers.
"""
