"""What a device can do at most: bytes copied in its memory and operations of products in a second, measured there once.

It is measured by marks around what the stream is asked for, and kept for devices of that name.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from dlang.cache.store import digest, user_store
from dlang.codegen.loops import HALF_PRODUCTS
from dlang.diagnostics import DlangError
from dlang.runtime.devices import Driver

BYTES = 256 << 20  # of an array that is copied: more than caches hold
SIDE = 4096  # of the matrices of a product
REPEATS = 8
KIND, VERSION = "device-ceilings", "1"
_TYPES = {"f64": (1, 70), "f32": (0, 68), "f16": (2, 68)}  # of cuBLAS: of elements, and in which it computes
