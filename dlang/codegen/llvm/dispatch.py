"""Finding the function that a call from Python fits, as LLVM text.

A *record* belongs to what Python calls. It lists functions, each with the parameters that it takes and with a table
that says what it takes for them; the first one that fits is run, else Python.
"""

from __future__ import annotations

from dlang.host.platform import objects

SLOWLY, SEED, PARAMETERS, COUNT, CALLERS = range(5)
CALLER = 3
MOST = 16
RECORD = CALLERS + CALLER * MOST
"""The words of a record: what is called if nothing fits, the name of the seed if there is one, the tuple of the names
of the parameters, how many functions, and for each its address, its table, and the set of its parameters in bits."""

MOST_PARAMETERS = 62
SEEDED = 1 << MOST_PARAMETERS
"""Of a set of parameters, the bit that says that the call gives a seed: functions are listed for calls with or without
one."""

FIRST_WORD = 1
"""The first word of a table is its state."""

MISS = 1
"""The answer of a function that does not take the arguments."""

FOUND, FLOAT, INTEGER, TRUTH = range(4)
"""How a number is read: as a scalar of NumPy of just its dtype, or as one of Python's; as an array without axes if that
is the address of a dtype."""

NAMES = ("dl_call",)


def text(word: int) -> str:
    """The call of an object, by the protocol `vectorcall`. word: where the object has the address of its record."""
    return f"""
declare i32 @PyUnicode_Compare(ptr, ptr)

; the first function that takes these parameters and arguments, else a miss
define internal ptr @try(ptr %record, ptr %args, i64 %set, i64 %seed) nounwind {{
entry:
  %manyp = getelementptr i64, ptr %record, i64 {COUNT}
  %many = load i64, ptr %manyp
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %missed ]
  %more = icmp ult i64 %k, %many
  br i1 %more, label %look, label %none
look:
  %word = mul i64 %k, {CALLER}
  %callerp = getelementptr i64, ptr %record, i64 %word
  %setp = getelementptr i64, ptr %callerp, i64 {CALLERS + 2}
  %wanted = load i64, ptr %setp
  %same = icmp eq i64 %wanted, %set
  br i1 %same, label %try, label %missed
try:
  %functionp = getelementptr i64, ptr %callerp, i64 {CALLERS}
  %function = load ptr, ptr %functionp
  %tablep = getelementptr i64, ptr %callerp, i64 {CALLERS + 1}
  %table = load ptr, ptr %tablep
  %out = call ptr %function(ptr %table, ptr %args, i64 %seed)
  %miss = icmp eq ptr %out, inttoptr (i64 {MISS} to ptr)
  br i1 %miss, label %missed, label %done
missed:
  %after = add i64 %k, 1
  br label %next
done:
  ret ptr %out
none:
  ret ptr inttoptr (i64 {MISS} to ptr)
}}

; a call with names: puts the arguments into the order of the parameters
define internal ptr @named(ptr %record, ptr %args, i64 %nargs, ptr %names) noinline nounwind {{
entry:
  %ordered = alloca [{MOST_PARAMETERS + 2} x ptr], align 8
  %over = alloca i64
  %countp = getelementptr i8, ptr %names, i64 {objects.COUNT}
  %count = load i64, ptr %countp
  %seedp = getelementptr i64, ptr %record, i64 {SEED}
  %seedname = load ptr, ptr %seedp
  %paramsp = getelementptr i64, ptr %record, i64 {PARAMETERS}
  %params = load ptr, ptr %paramsp
  %pcountp = getelementptr i8, ptr %params, i64 {objects.COUNT}
  %pcount = load i64, ptr %pcountp
  %many = icmp ugt i64 %nargs, %pcount
  br i1 %many, label %miss, label %start
start:
  %bit0 = shl i64 1, %nargs
  %set0 = sub i64 %bit0, 1
  br label %copy
copy:
  %c = phi i64 [ 0, %start ], [ %c2, %copied ]
  %left = icmp ult i64 %c, %nargs
  br i1 %left, label %copied, label %next
copied:
  %fromp = getelementptr ptr, ptr %args, i64 %c
  %from = load ptr, ptr %fromp
  %top = getelementptr ptr, ptr %ordered, i64 %c
  store ptr %from, ptr %top
  %c2 = add i64 %c, 1
  br label %copy
next:
  %j = phi i64 [ 0, %copy ], [ %j2, %go ]
  %set = phi i64 [ %set0, %copy ], [ %set2, %go ]
  %seed = phi i64 [ 0, %copy ], [ %seed2, %go ]
  %seeded = phi i64 [ 0, %copy ], [ %seeded2, %go ]
  %more = icmp ult i64 %j, %count
  br i1 %more, label %one, label %pack
one:
  %offset = shl i64 %j, 3
  %at = add i64 %offset, {objects.ITEMS}
  %namep = getelementptr i8, ptr %names, i64 %at
  %name = load ptr, ptr %namep
  %which = add i64 %nargs, %j
  %valuep = getelementptr ptr, ptr %args, i64 %which
  %value = load ptr, ptr %valuep
  %isseed = icmp eq ptr %name, %seedname
  br i1 %isseed, label %aseed, label %find
aseed:
  %kindp = getelementptr i8, ptr %value, i64 {objects.TYPE}
  %kind = load ptr, ptr %kindp
  %isint = icmp eq ptr %kind, @PyLong_Type
  br i1 %isint, label %read, label %miss
read:
  %number = call i64 @dl_integer(ptr %value, ptr %over)
  %wide = load i64, ptr %over
  %fits = icmp eq i64 %wide, 0
  br i1 %fits, label %go, label %miss
find:
  %p = phi i64 [ 0, %one ], [ %p2, %other ]
  %some = icmp ult i64 %p, %pcount
  br i1 %some, label %compare, label %equal
compare:
  %poffset = shl i64 %p, 3
  %pat = add i64 %poffset, {objects.ITEMS}
  %pnamep = getelementptr i8, ptr %params, i64 %pat
  %pname = load ptr, ptr %pnamep
  %found = icmp eq ptr %pname, %name
  br i1 %found, label %place, label %other
other:
  %p2 = add i64 %p, 1
  br label %find
equal:
  ; an equal name may be another object
  %q = phi i64 [ 0, %find ], [ %q2, %unequal ]
  %qsome = icmp ult i64 %q, %pcount
  br i1 %qsome, label %contrast, label %miss
contrast:
  %qoffset = shl i64 %q, 3
  %qat = add i64 %qoffset, {objects.ITEMS}
  %qnamep = getelementptr i8, ptr %params, i64 %qat
  %qname = load ptr, ptr %qnamep
  %order = call i32 @PyUnicode_Compare(ptr %qname, ptr %name)
  %alike = icmp eq i32 %order, 0
  br i1 %alike, label %place, label %unequal
unequal:
  %q2 = add i64 %q, 1
  br label %equal
place:
  %parameter = phi i64 [ %p, %compare ], [ %q, %contrast ]
  %bit = shl i64 1, %parameter
  %before = and i64 %set, %bit
  %twice = icmp ne i64 %before, 0
  br i1 %twice, label %miss, label %put
put:
  %set1 = or i64 %set, %bit
  %slot = getelementptr ptr, ptr %ordered, i64 %parameter
  store ptr %value, ptr %slot
  br label %go
go:
  %set2 = phi i64 [ %set, %read ], [ %set1, %put ]
  %seed2 = phi i64 [ %number, %read ], [ %seed, %put ]
  %seeded2 = phi i64 [ {SEEDED}, %read ], [ %seeded, %put ]
  %j2 = add i64 %j, 1
  br label %next
pack:
  ; those that are left to their defaults leave no gap
  %s = phi i64 [ 0, %next ], [ %s2, %packed ]
  %d = phi i64 [ 0, %next ], [ %d2, %packed ]
  %rest = lshr i64 %set, %s
  %any = icmp ne i64 %rest, 0
  br i1 %any, label %packed, label %try
packed:
  %sourcep = getelementptr ptr, ptr %ordered, i64 %s
  %source = load ptr, ptr %sourcep
  %targetp = getelementptr ptr, ptr %ordered, i64 %d
  store ptr %source, ptr %targetp
  %given = and i64 %rest, 1
  %d2 = add i64 %d, %given
  %s2 = add i64 %s, 1
  br label %pack
try:
  %kept = or i64 %set, %seeded
  %out = call ptr @try(ptr %record, ptr %ordered, i64 %kept, i64 %seed)
  ret ptr %out
miss:
  ret ptr inttoptr (i64 {MISS} to ptr)
}}

define ptr @dl_call(ptr %self, ptr %args, i64 %flagged, ptr %names) nounwind {{
entry:
  %wordp = getelementptr i8, ptr %self, i64 {word}
  %record = load ptr, ptr %wordp
  %nargs = and i64 %flagged, {2**63 - 1}
  %plain = icmp eq ptr %names, null
  br i1 %plain, label %ordered, label %named
ordered:
  %many = icmp ugt i64 %nargs, {MOST_PARAMETERS}
  br i1 %many, label %slowly, label %few
few:
  %bit = shl i64 1, %nargs
  %set = sub i64 %bit, 1
  %first = call ptr @try(ptr %record, ptr %args, i64 %set, i64 0)
  br label %tried
named:
  %second = call ptr @named(ptr %record, ptr %args, i64 %nargs, ptr %names)
  br label %tried
tried:
  %out = phi ptr [ %first, %few ], [ %second, %named ]
  %miss = icmp eq ptr %out, inttoptr (i64 {MISS} to ptr)
  br i1 %miss, label %slowly, label %done
done:
  ret ptr %out
slowly:
  %slow = load ptr, ptr %record
  %answer = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %flagged, ptr %names)
  ret ptr %answer
}}
"""
