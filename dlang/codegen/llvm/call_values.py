"""What reads numbers, texts and arrays of Python for all callers, as LLVM text."""

from __future__ import annotations

from dlang.runtime.platform import objects

NAMES = ("dl_integer", "dl_below", "dl_text", "dl_rows", "dl_in_rows")

_READY = objects.C_CONTIGUOUS | objects.ALIGNED

TEXT = f"""
declare ptr @PyArray_NewCopy(ptr, i32)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
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

; the number of a text, by the dictionary of these; -1 if it has none yet
define i64 @dl_text(ptr %numbers, ptr %text) nounwind {{
entry:
  %over = alloca i32
  %found = call ptr @PyDict_GetItemWithError(ptr %numbers, ptr %text)
  %none = icmp eq ptr %found, null
  br i1 %none, label %new, label %known
known:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %found, ptr %over)
  ret i64 %number
new:
  call void @PyErr_Clear()
  ret i64 -1
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
