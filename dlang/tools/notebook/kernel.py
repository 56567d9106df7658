"""A kernel for Jupyter: notebooks whose cells are in the language. `python -m dlang.tools.notebook install` adds it."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import Any

from ipykernel.kernelbase import Kernel

from dlang import __version__
from dlang.diagnostics import DlangError
from dlang.grammar.lexer import NAME
from dlang.tools.assistance import call_at, situation
from dlang.tools.notebook.cells import Display, Notebook, bundle, message
from dlang.tools.repl.commands import doc_of
from dlang.tools.repl.completion import candidates
from dlang.tools.repl.inputs import incomplete, indentation
from dlang.tools.report import report_defect

_PATH = re.compile(rf"{NAME}(?:\.{NAME})*")


class DlangKernel(Kernel):
    """Speaks Jupyter's protocol for one session."""

    implementation = "dlang"
    implementation_version = __version__
    banner = f"dlang {__version__}; :help says what can be written"
    language_info = {
        "name": "dlang",
        "version": __version__,
        "mimetype": "text/x-dlang",
        "file_extension": ".dl",
        "pygments_lexer": "dlang",
        "codemirror_mode": "rust",
    }

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.notebook = Notebook(self._show)

    def _show(self, shown: Display) -> None:
        content = {"data": bundle(shown), "metadata": {}}
        self.send_response(self.iopub_socket, "display_data", content)

    def set_parent(self, ident: Any, parent: Any, channel: str = "shell") -> None:
        """Says to which request of Jupyter what is written from now on belongs."""
        super().set_parent(ident, parent, channel)
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "set_parent"):
                stream.set_parent(parent)

    async def do_execute(self, code: str, silent: bool, *_: Any, **__: Any) -> dict[str, Any]:
        """Runs a cell."""
        try:
            self.notebook.run(code, self.execution_count)
        except DlangError as e:
            first = e.diagnostics[0]
            return self._failed(f"error[{first.code}]", first.message, message(e, colour=True), silent)
        except KeyboardInterrupt:
            return self._failed("interrupted", "", "interrupted", silent)
        except Exception as e:
            report_defect(e)  # the session is what it was
            return self._failed("defect", f"{type(e).__name__}: {e}", "", silent)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
        return {"status": "ok", "execution_count": self.execution_count, "payload": [], "user_expressions": {}}

    def _failed(self, name: str, value: str, text: str, silent: bool) -> dict[str, Any]:
        content = {"ename": name, "evalue": value, "traceback": text.split("\n")}
        if not silent:
            self.send_response(self.iopub_socket, "error", content)
        return {"status": "error", "execution_count": self.execution_count, **content}

    async def do_complete(self, code: str, cursor_pos: int) -> dict[str, Any]:
        """Returns the completions at the cursor."""
        before = code[:cursor_pos]
        start = before.rfind("\n") + 1 if before.rpartition("\n")[2].startswith(":") else 0
        completions = candidates(self.notebook.session, before[start:])
        at = start + (completions[0].start if completions else cursor_pos - start)
        completions = [c for c in completions if start + c.start == at]
        types = [{"text": c.text, "start": at, "end": cursor_pos, "type": "", "signature": c.meta} for c in completions]
        return {
            "status": "ok",
            "matches": [c.text for c in completions],
            "cursor_start": at,
            "cursor_end": cursor_pos,
            "metadata": {"_jupyter_types_experimental": types},
        }

    async def do_inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> dict[str, Any]:
        """The signature and the documentation of the name at the cursor, or else of the function that is called."""
        call = call_at(situation(code[:cursor_pos]))
        paths = [m[0] for m in _PATH.finditer(code) if m.start() <= cursor_pos <= m.end()]
        for path in [*paths, *([call.path] if call is not None else [])]:
            with suppress(DlangError):
                text = doc_of(self.notebook.session, path)
                return {"status": "ok", "found": True, "data": {"text/plain": text}, "metadata": {}}
        return {"status": "ok", "found": False, "data": {}, "metadata": {}}

    async def do_is_complete(self, code: str) -> dict[str, Any]:
        """Tells whether Enter runs a cell in a console."""
        if incomplete(code):
            return {"status": "incomplete", "indent": indentation(code)}
        return {"status": "complete"}
