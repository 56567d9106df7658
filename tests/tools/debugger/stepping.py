"""A debugger of a text, and what a person reads of it."""

import io

from dlang.diagnostics import Source
from dlang.driver import check, errors_of
from dlang.host.effects import Host
from dlang.tools.debugger import showing
from dlang.tools.debugger.commands import Conversation
from dlang.tools.debugger.debugger import debugger_of
from dlang.tools.debugger.timeline import Why
from dlang.tools.debugger.values import cotangent, shown, tangents


class Talk:
    """A conversation with a debugger at the first statement. out: what the program has printed."""

    def __init__(self, text, **options):
        source = Source("p.dl", text)
        checked = check(source)
        assert not errors_of(checked), errors_of(checked)
        self.out = io.StringIO()
        start = checked.module.functions.get("main") or checked.module.script
        self.debugger = debugger_of(checked, start, source, host=Host(self.out), **options)
        self.conversation = Conversation(self.debugger)
        self.debugger.step()

    def __call__(self, command):
        return "\n".join(self.conversation.say(command))


def snapshot(d):
    """All that is to be seen at a position."""
    variables = {name: shown(s, d.trees) + tangents(s, d.trees) for name, s in d.seen().items()}
    cotangents = {s.name.text: cotangent(s, d.trees) + tangents(s, d.trees) for s in d.cotangents()}
    return showing.number(d), showing.position(d), variables, cotangents, showing.calls(d)


def forward(d, most=10_000):
    """Steps to the end; what is to be seen at each step, and why it ends."""
    out, why = [], Why.STEP
    while len(out) < most and (why := d.step()) is Why.STEP:
        out.append(snapshot(d))
    return out, why


def backward(d):
    """Steps back to the beginning."""
    out = []
    while d.step(False) is Why.STEP:
        out.append(snapshot(d))
    return out
