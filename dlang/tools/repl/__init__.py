"""`dlc repl`: a conversation. An input is declarations, statements or an expression; what begins with `:` is a command.

`session.py` does what inputs say and knows nothing of terminals: `state.py` is what it remembers, `compose.py` makes a
function of an input. `commands.py` is the table of commands.
`conversation.py` reads and answers, plainly from a pipe; on a terminal `prompt.py` edits lines, with colours,
completion and signatures.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dlang.lazy_modules import lazy_module
from dlang.tools.arguments import add_backend

if TYPE_CHECKING:
    from dlang.tools.arguments import Parser
    from dlang.tools.repl import conversation
else:
    conversation = lazy_module("dlang.tools.repl.conversation")


def options(parser: Parser) -> None:
    add_backend(parser)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file to begin with, as by `:load`")


def main(args: argparse.Namespace) -> int:
    return conversation.repl(args.backend, args.files)
