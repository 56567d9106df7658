"""Emits the LLVM text that the functions called by Python share: objects, and the begin and the end of a run.

A *state* belongs to a compiled entry: its context, in which one run at a time goes on. It is guarded by Python's lock,
which only `dl_run` lets go, and NumPy where it copies an array. `dispatch.py` finds the function that a call fits.
"""

from __future__ import annotations

from dlang.codegen.abi import CODE, LEFT
from dlang.codegen.llvm import call_values, dispatch, support
from dlang.host.platform import objects

CONTEXT, BUSY, RETURNED, OWNER, FAILED, TIDY, ARENA, KEPT, STACK, LIMIT, MAIN, DROPPED, CELL = range(13)
STATE = CELL + 1
"""The words of a state. RETURNED: blocks that arrays gave back. OWNER: the object that all of it belongs to. FAILED
and TIDY: what is called after a failure, and after a run that took much or was interrupted. ARENA: where that begins,
if there is one, and KEPT how far it may go. STACK: the top of the stack that is run on, if there is one, and its LIMIT.
MAIN: the address of three words: the number of the main thread, how often a run on it looks up, and how often one on
another does. DROPPED: that of a word that is not 0 if Python has dropped an interruption. CELL: that of the entry's
cell, which says where its code is, and how much work calls may do before Python is asked."""

OWN_WORD = 5
"""The word of a block's header that holds the state which the block returns to."""

LARGE = 1 << 16
"""The bytes from which an array comes from the free lists, whose pages are there already."""

MOST_OF_NODES = 1 << 20
"""The bytes of nodes that are written without Python, which sees what nodes share."""

NAMES = (
    *dispatch.NAMES,
    *call_values.NAMES,
    "dl_begin",
    "dl_end",
    "dl_run",
    "dl_undo",
    "dl_array",
    "dl_adopted",
    "dl_absorb",
    "dl_node",
    "dl_return",
)

SYMBOLS = (
    "PyArray_Type", "PyArray_Scalar", "PyBool_FromLong", "PyBool_Type", "PyErr_Clear", "PyErr_Occurred",
    "PyFloat_FromDouble", "PyFloat_Type", "PyLong_AsDouble", "PyLong_FromLongLong", "PyLong_Type",
    "PyObject_CallNoArgs", "PyTuple_New", "PyTuple_Type", "PyType_GenericAlloc", "PyUnicode_Type", "Py_DecRef",
    "Py_IncRef", "_Py_NoneStruct", "_Py_TrueStruct",
)  # fmt: skip
"""The functions and objects of CPython and NumPy that a caller uses."""

SHARED = (
    "PyArray_NewCopy", "PyArray_NewFromDescr", "PyArray_SetBaseObject", "PyArray_Type", "PyCapsule_GetContext",
    "PyCapsule_GetPointer", "PyCapsule_New", "PyCapsule_SetContext", "PyErr_Clear",
    "PyErr_NoMemory", "PyEval_RestoreThread", "PyEval_SaveThread", "PyLong_AsLongLongAndOverflow", "PyLong_Type",
    "PyObject_CallNoArgs", "PyObject_Vectorcall", "PyThread_get_thread_ident", "PyUnicode_AsUTF8AndSize",
    "PyUnicode_Compare", "PyUnicode_DecodeUTF8", "Py_DecRef",
    "Py_IncRef",
)  # fmt: skip
"""The symbols that the functions here use."""

SUPPORT = ("dl_enter", "dl_take", "dl_give", "dl_detach", "dl_reclaim", "dl_object", "dl_text_made")
"""And of what all compiled code shares."""

DECLARATIONS = """
@PyArray_Type = external global i8
@PyBool_Type = external global i8
@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyTuple_Type = external global i8
@PyUnicode_Type = external global i8
@_Py_NoneStruct = external global i8
@_Py_TrueStruct = external global i8
declare ptr @PyArray_Scalar(ptr, ptr, ptr)
declare ptr @PyBool_FromLong(i64)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare ptr @PyFloat_FromDouble(double)
declare double @PyLong_AsDouble(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare i1 @dl_begin(ptr, double)
declare ptr @dl_end(ptr, ptr, ptr, i64)
declare i32 @dl_run(ptr, ptr, i1)
declare void @dl_undo(ptr, ptr, i64)
declare ptr @dl_array(ptr, ptr, i32, ptr, i64)
declare ptr @dl_adopted(ptr, i64, ptr, i32, ptr)
declare i64 @dl_integer(ptr, ptr)
declare i1 @dl_below(ptr, i64, i64)
declare i64 @dl_text(ptr, i64)
declare ptr @dl_text_object(i64)
declare ptr @dl_rows(ptr, ptr)
declare i1 @dl_in_rows(ptr)
declare ptr @dl_node(ptr, i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1 immarg)
"""

_OWN = "ptr null, ptr null, i32 0, ptr null"
_LENT = f"ptr null, ptr %data, i32 {objects.C_CONTIGUOUS | objects.ALIGNED | objects.WRITEABLE}, ptr null"


def text(word: int) -> str:
    """The functions. word: where an object that is called has the address of its record."""
    return (
        dispatch.text(word)
        + call_values.TEXT
        + f"""
@PyArray_Type = external global i8
@PyLong_Type = external global i8
@capsule = internal constant [6 x i8] c"dlang\\00"
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @PyArray_SetBaseObject(ptr, ptr)
declare ptr @PyCapsule_GetContext(ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare i32 @PyCapsule_SetContext(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyEval_SaveThread()
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare i64 @PyThread_get_thread_ident()
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare i32 @dl_enter(ptr, ptr, ptr, ptr)
declare ptr @dl_take(ptr, i64)
declare void @dl_give(ptr, ptr)
declare void @dl_detach(ptr)
declare void @dl_reclaim(ptr)
declare ptr @dl_object(ptr, i64, i64)
declare {{i64, i1}} @llvm.umul.with.overflow.i64(i64, i64)

; room for a node and its header, of so many bytes, in the arena; null if there is none, or much has been taken
define ptr @dl_node(ptr %state, i64 %bytes, i64 %header) nounwind {{
entry:
  %ctx = load ptr, ptr %state
  %topp = getelementptr i64, ptr %ctx, i64 {support.ARENA_TOP}
  %top = load i64, ptr %topp
  %end = add i64 %top, %bytes
  %arenap = getelementptr i64, ptr %state, i64 {ARENA}
  %arena = load i64, ptr %arenap
  %taken = sub i64 %end, %arena
  %much = icmp ugt i64 %taken, {MOST_OF_NODES}
  br i1 %much, label %none, label %place
place:
  %node = call ptr @dl_object(ptr %ctx, i64 %bytes, i64 %header)
  ret ptr %node
none:
  ret ptr null
}}

; gives blocks that arrays have given back to the free lists
define void @dl_absorb(ptr %state) nounwind {{
entry:
  %ctx = load ptr, ptr %state
  %returnedp = getelementptr i64, ptr %state, i64 {RETURNED}
  br label %next
next:
  %block = load ptr, ptr %returnedp
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %give
give:
  %rest = load ptr, ptr %block
  store ptr %rest, ptr %returnedp
  %data = getelementptr i8, ptr %block, i64 {support.HEADER}
  call void @dl_give(ptr %ctx, ptr %data)
  br label %next
done:
  ret void
}}

; makes ready for a run, unless one is under way or it does more work than is left to do in this code
define i1 @dl_begin(ptr %state, double %work) nounwind {{
entry:
  %busyp = getelementptr i64, ptr %state, i64 {BUSY}
  %busy = load i64, ptr %busyp
  %taken = icmp ne i64 %busy, 0
  br i1 %taken, label %refuse, label %count
count:
  %cellp = getelementptr i64, ptr %state, i64 {CELL}
  %cell = load ptr, ptr %cellp
  %leftp = getelementptr i64, ptr %cell, i64 {LEFT}
  %left = load double, ptr %leftp
  %enough = fcmp oge double %left, %work
  br i1 %enough, label %begin, label %refuse
refuse:
  ret i1 false
begin:
  %less = fsub double %left, %work
  store double %less, ptr %leftp
  store i64 1, ptr %busyp
  %ctx = load ptr, ptr %state
  %returnedp = getelementptr i64, ptr %state, i64 {RETURNED}
  %returned = load ptr, ptr %returnedp
  %nothing = icmp eq ptr %returned, null
  br i1 %nothing, label %ready, label %absorb
absorb:
  call void @dl_absorb(ptr %state)
  br label %ready
ready:
  %callsp = getelementptr i64, ptr %ctx, i64 {support.CALLS}
  store i64 0, ptr %callsp
  %deadlinep = getelementptr i64, ptr %ctx, i64 {support.DEADLINE}
  store i64 0, ptr %deadlinep
  %arenap = getelementptr i64, ptr %state, i64 {ARENA}
  %arena = load i64, ptr %arenap
  %topp = getelementptr i64, ptr %ctx, i64 {support.ARENA_TOP}
  store i64 %arena, ptr %topp
  %limitp = getelementptr i64, ptr %state, i64 {LIMIT}
  %limit = load i64, ptr %limitp
  %stackp = getelementptr i64, ptr %ctx, i64 {support.STACK_LIMIT}
  store i64 %limit, ptr %stackp
  %mainp = getelementptr i64, ptr %state, i64 {MAIN}
  %mainat = load ptr, ptr %mainp
  %main = load i64, ptr %mainat
  %here = call i64 @PyThread_get_thread_ident()
  %ismain = icmp eq i64 %main, %here
  %often = getelementptr i64, ptr %mainat, i64 1
  %never = getelementptr i64, ptr %mainat, i64 2
  %whichp = select i1 %ismain, ptr %often, ptr %never
  %interval = load i64, ptr %whichp
  %intervalp = getelementptr i64, ptr %ctx, i64 {support.INTERVAL}
  store i64 %interval, ptr %intervalp
  ret i1 true
}}

; after a run: drops so many objects, gives back the memory of one that took much; the result, null if interrupted
define ptr @dl_end(ptr %state, ptr %result, ptr %objects, i64 %n) nounwind {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k2, %dropped ]
  %left = icmp ult i64 %k, %n
  br i1 %left, label %one, label %ended
one:
  %objectp = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %objectp
  %k2 = add i64 %k, 1
  %none = icmp eq ptr %object, null
  br i1 %none, label %dropped, label %one.drop
one.drop:
  call void @Py_DecRef(ptr %object)
  br label %dropped
dropped:
  br label %next
ended:
  %ctx = load ptr, ptr %state
  %limitp = getelementptr i64, ptr %state, i64 {LIMIT}
  %limit = load i64, ptr %limitp
  %stackp = getelementptr i64, ptr %ctx, i64 {support.STACK_LIMIT}
  %stack = load i64, ptr %stackp
  %deep = icmp ne i64 %stack, %limit
  %keptp = getelementptr i64, ptr %state, i64 {KEPT}
  %kept = load i64, ptr %keptp
  %endp = getelementptr i64, ptr %ctx, i64 {support.ARENA_LIMIT}
  %end = load i64, ptr %endp
  %much = icmp ugt i64 %end, %kept
  %busyp = getelementptr i64, ptr %state, i64 {BUSY}
  %pendingp = getelementptr i64, ptr %state, i64 {DROPPED}
  %pendingat = load ptr, ptr %pendingp
  %pending = load i64, ptr %pendingat
  %lost = icmp ne i64 %pending, 0
  %either = or i1 %deep, %much
  %work = or i1 %either, %lost
  br i1 %work, label %tidy, label %fine
fine:
  store i64 0, ptr %busyp
  ret ptr %result
tidy:
  %tidyp = getelementptr i64, ptr %state, i64 {TIDY}
  %tidier = load ptr, ptr %tidyp
  %answer = call ptr @PyObject_CallNoArgs(ptr %tidier)
  %interrupted = icmp eq ptr %answer, null
  br i1 %interrupted, label %drop, label %tidied
tidied:
  call void @Py_DecRef(ptr %answer)
  br label %fine
drop:
  store i64 0, ptr %busyp
  call void @Py_DecRef(ptr %result)
  ret ptr null
}}

; runs an entry; other threads go on meanwhile if that takes long
define i32 @dl_run(ptr %state, ptr %words, i1 %long) nounwind {{
entry:
  %ctx = load ptr, ptr %state
  %cellp = getelementptr i64, ptr %state, i64 {CELL}
  %cell = load ptr, ptr %cellp
  %codep = getelementptr i64, ptr %cell, i64 {CODE}
  %code = load ptr, ptr %codep
  %stackp = getelementptr i64, ptr %state, i64 {STACK}
  %stack = load ptr, ptr %stackp
  br i1 %long, label %let, label %run
let:
  %saved = call ptr @PyEval_SaveThread()
  br label %run
run:
  %thread = phi ptr [ null, %entry ], [ %saved, %let ]
  %flat = icmp eq ptr %stack, null
  br i1 %flat, label %here, label %away
here:
  %failed0 = call i32 %code(ptr %ctx, ptr %words)
  br label %ran
away:
  %failed1 = call i32 @dl_enter(ptr %code, ptr %ctx, ptr %words, ptr %stack)
  br label %ran
ran:
  %failed = phi i32 [ %failed0, %here ], [ %failed1, %away ]
  br i1 %long, label %hold, label %done
hold:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %done
done:
  ret i32 %failed
}}

; ends a run without a result, and drops the objects that were made for it
define void @dl_undo(ptr %state, ptr %objects, i64 %n) nounwind {{
entry:
  %ctx = load ptr, ptr %state
  call void @dl_reclaim(ptr %ctx)
  %busyp = getelementptr i64, ptr %state, i64 {BUSY}
  store i64 0, ptr %busyp
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %drop ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %drop, label %done
drop:
  %p = getelementptr ptr, ptr %objects, i64 %k
  %object = load ptr, ptr %p
  call void @Py_DecRef(ptr %object)
  %after = add i64 %k, 1
  br label %next
done:
  ret void
}}

; a new array; large ones are in the memory of the context
define ptr @dl_array(ptr %state, ptr %dtype, i32 %nd, ptr %dims, i64 %width) nounwind {{
entry:
  br label %next
next:
  %k = phi i32 [ 0, %entry ], [ %after, %times ]
  %bytes = phi i64 [ %width, %entry ], [ %product, %times ]
  %more = icmp ult i32 %k, %nd
  br i1 %more, label %times, label %sized
times:
  %wide = zext i32 %k to i64
  %p = getelementptr i64, ptr %dims, i64 %wide
  %n = load i64, ptr %p
  %both = call {{i64, i1}} @llvm.umul.with.overflow.i64(i64 %bytes, i64 %n)
  %product = extractvalue {{i64, i1}} %both, 0
  %wraps = extractvalue {{i64, i1}} %both, 1
  %after = add i32 %k, 1
  br i1 %wraps, label %none, label %next
sized:
  %large = icmp uge i64 %bytes, {LARGE}
  br i1 %large, label %take, label %plain
plain:
  call void @Py_IncRef(ptr %dtype)
  %made = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %dtype, i32 %nd, ptr %dims, {_OWN})
  ret ptr %made
take:
  %ctx = load ptr, ptr %state
  %data = call ptr @dl_take(ptr %ctx, i64 %bytes)
  %short = icmp eq ptr %data, null
  br i1 %short, label %none, label %over
over:
  %array = call ptr @over(ptr %state, ptr %data, ptr %dtype, i32 %nd, ptr %dims)
  ret ptr %array
none:
  %null = call ptr @PyErr_NoMemory()
  ret ptr null
}}

; an array over a block that a run hands over
define ptr @dl_adopted(ptr %state, i64 %address, ptr %dtype, i32 %nd, ptr %dims) nounwind {{
  %data = inttoptr i64 %address to ptr
  call void @dl_detach(ptr %data)
  %array = call ptr @over(ptr %state, ptr %data, ptr %dtype, i32 %nd, ptr %dims)
  ret ptr %array
}}

; an array over a block, which returns to the state when the array dies
define internal ptr @over(ptr %state, ptr %data, ptr %dtype, i32 %nd, ptr %dims) nounwind {{
entry:
  %ctx = load ptr, ptr %state
  %block = getelementptr i8, ptr %data, i64 -{support.HEADER}
  %ownp = getelementptr i64, ptr %block, i64 {OWN_WORD}
  store ptr %state, ptr %ownp
  %base = call ptr @PyCapsule_New(ptr %data, ptr @capsule, ptr @drop)
  %failed = icmp eq ptr %base, null
  br i1 %failed, label %back, label %own
back:
  call void @dl_give(ptr %ctx, ptr %data)
  ret ptr null
own:
  %ownerp = getelementptr i64, ptr %state, i64 {OWNER}
  %owner = load ptr, ptr %ownerp
  call void @Py_IncRef(ptr %owner)
  %set = call i32 @PyCapsule_SetContext(ptr %base, ptr %owner)
  call void @Py_IncRef(ptr %dtype)
  %array = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %dtype, i32 %nd, ptr %dims, {_LENT})
  %bare = icmp eq ptr %array, null
  br i1 %bare, label %drop, label %join
drop:
  call void @Py_DecRef(ptr %base)
  ret ptr null
join:
  %joined = call i32 @PyArray_SetBaseObject(ptr %array, ptr %base)
  %loose = icmp slt i32 %joined, 0
  br i1 %loose, label %lose, label %done
lose:
  call void @Py_DecRef(ptr %array)
  ret ptr null
done:
  ret ptr %array
}}

; an array over a block has died
define internal void @drop(ptr %base) nounwind {{
  %data = call ptr @PyCapsule_GetPointer(ptr %base, ptr @capsule)
  %owner = call ptr @PyCapsule_GetContext(ptr %base)
  %block = getelementptr i8, ptr %data, i64 -{support.HEADER}
  %ownp = getelementptr i64, ptr %block, i64 {OWN_WORD}
  %state = load ptr, ptr %ownp
  call void @dl_return(ptr %state, ptr %data)
  call void @Py_DecRef(ptr %owner)
  ret void
}}

; gives a block back: the next run puts it into the free lists
define void @dl_return(ptr %state, ptr %data) nounwind {{
  %block = getelementptr i8, ptr %data, i64 -{support.HEADER}
  %returnedp = getelementptr i64, ptr %state, i64 {RETURNED}
  %first = load ptr, ptr %returnedp
  store ptr %first, ptr %block
  store ptr %block, ptr %returnedp
  ret void
}}
"""
    )
