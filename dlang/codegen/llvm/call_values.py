"""Holds the LLVM text that all callers share to read Python's numbers, texts and arrays."""

from __future__ import annotations

from dlang.codegen.llvm.texts import FAILED
from dlang.host.platform import objects

NAMES = ("dl_integer", "dl_below", "dl_text", "dl_text_object", "dl_rows", "dl_in_rows")

_READY = objects.C_CONTIGUOUS | objects.ALIGNED

TEXT = f"""
declare ptr @PyArray_NewCopy(ptr, i32)
declare ptr @PyUnicode_AsUTF8AndSize(ptr, ptr)
declare ptr @PyUnicode_DecodeUTF8(ptr, i64, ptr)
declare i64 @dl_text_made(ptr, ptr, i64)
@surrogatepass = internal constant [14 x i8] c"surrogatepass\\00"
declare void @PyErr_Clear()
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)

; an integer of Python; whether it is larger than 64 bits
define i64 @dl_integer(ptr %object, ptr %over) nounwind {{
  store i64 0, ptr %over
  %value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %over)
  ret i64 %value
}}

; whether so many integers are all indices below a bound
define i1 @dl_below(ptr %data, i64 %n, i64 %bound) nounwind {{
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %after, %look ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %look, label %done
look:
  %p = getelementptr i64, ptr %data, i64 %k
  %x = load i64, ptr %p
  %inside = icmp ult i64 %x, %bound
  %after = add i64 %k, 1
  br i1 %inside, label %next, label %done
done:
  %fine = phi i1 [ true, %next ], [ false, %look ]
  ret i1 %fine
}}

; the reference to a text of Python, put into the arena of the run; 0 for no object, {FAILED} if that is left to Python
define i64 @dl_text(ptr %state, i64 %object) nounwind {{
entry:
  %length = alloca i64
  %none = icmp eq i64 %object, 0
  br i1 %none, label %nothing, label %read
nothing:
  ret i64 0
read:
  %text = inttoptr i64 %object to ptr
  %bytes = call ptr @PyUnicode_AsUTF8AndSize(ptr %text, ptr %length)
  %failed = icmp eq ptr %bytes, null
  br i1 %failed, label %refuse, label %write
refuse:
  call void @PyErr_Clear()
  ret i64 {FAILED}
write:
  %ctx = load ptr, ptr %state
  %n = load i64, ptr %length
  %word = call i64 @dl_text_made(ptr %ctx, ptr %bytes, i64 %n)
  ret i64 %word
}}

; a text of Python, of a reference; null after an error
define ptr @dl_text_object(i64 %word) nounwind {{
entry:
  %none = icmp eq i64 %word, 0
  br i1 %none, label %make, label %some
some:
  %p = inttoptr i64 %word to ptr
  %n = load i64, ptr %p
  %first = getelementptr i64, ptr %p, i64 1
  br label %make
make:
  %bytes = phi ptr [ @surrogatepass, %entry ], [ %first, %some ]
  %length = phi i64 [ 0, %entry ], [ %n, %some ]
  %text = call ptr @PyUnicode_DecodeUTF8(ptr %bytes, i64 %length, ptr @surrogatepass)
  ret ptr %text
}}

; whether the elements of an array lie one after another, in rows
define i1 @dl_in_rows(ptr %array) nounwind {{
  %p = getelementptr i8, ptr %array, i64 {objects.FLAGS}
  %flags = load i32, ptr %p
  %both = and i32 %flags, {_READY}
  %ready = icmp eq i32 %both, {_READY}
  ret i1 %ready
}}

; the elements of an array in rows, where need be of a copy, which is kept at a place; null if there is no memory
define ptr @dl_rows(ptr %array, ptr %place) nounwind {{
entry:
  %ready = call i1 @dl_in_rows(ptr %array)
  br i1 %ready, label %have, label %copy
copy:
  %made = call ptr @PyArray_NewCopy(ptr %array, i32 0)
  store ptr %made, ptr %place
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %none, label %have
none:
  ret ptr null
have:
  %from = phi ptr [ %array, %entry ], [ %made, %copy ]
  %p = getelementptr i8, ptr %from, i64 {objects.DATA}
  %data = load ptr, ptr %p
  ret ptr %data
}}
"""
