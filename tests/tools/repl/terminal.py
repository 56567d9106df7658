"""A command that talks, such as `dlc repl`, as a process on a terminal whose screen is read."""

import os
import sys
import termios
import time
from contextlib import suppress

import pexpect
import pyte

ROWS, COLUMNS = 40, 100
READS = 1200  # until it hangs; each waits for 0.05 seconds, if it has to


class Terminal:
    """A session on a terminal of its own. Its history is nowhere unless the environment says where."""

    def __init__(self, *args, command="repl", prompt=">", **env):
        self.prompt = prompt
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=5000)
        self.screen.write_process_input = lambda answer: self.process.send(answer)
        self.stream = pyte.Stream(self.screen)
        settings = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "DISPLAY")}
        settings |= {"TERM": "xterm-256color", "DLANG_HISTORY": "", **env}
        words = ["-m", "dlang.tools.dlc", command, *args]
        size = (ROWS, COLUMNS)
        self.process = pexpect.spawn(sys.executable, words, env=settings, encoding="utf-8", dimensions=size)
        self.process.delaybeforesend = None
        self.until(lambda: self.waits())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.close(force=True)

    def read(self):
        """Takes in what there is to be seen by now."""
        with suppress(pexpect.TIMEOUT, pexpect.EOF):
            self.stream.feed(self.process.read_nonblocking(65536, 0.05))

    def until(self, seen):
        for _ in range(READS):
            if seen():
                return
            self.read()
        raise AssertionError("\n".join(self.lines()))

    def lines(self):
        """All lines so far, those that have left the screen included."""
        gone = ["".join(line[k].data for k in range(COLUMNS)).rstrip() for line in self.screen.history.top]
        lines = gone + [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def waits(self):
        """Whether the last line is an empty prompt."""
        return self.lines()[-1:] == [self.prompt]

    def type(self, keys):
        self.process.send(keys)

    def sees(self, text):
        """Waits until a text is on the screen."""
        self.until(lambda: any(text in line for line in self.lines()))

    def say(self, text, end="\r"):
        """Types an input; the lines of the answer."""
        before = len(self.lines()) - 1
        self.type(text + end)
        self.until(lambda: len(self.lines()) > before + 1 and self.waits())
        answer = self.lines()[before:-1]
        own = (f"{self.prompt} ", "| ")
        return [line for line in answer if not line.startswith(own) and line not in (self.prompt, "|")]

    def interrupt(self):
        """Presses Ctrl-C when an input runs, which is when the terminal makes a signal of it, and waits."""
        seen = self.lines().count("interrupted")
        self.until(lambda: termios.tcgetattr(self.process.child_fd)[3] & termios.ISIG)
        pause = time.monotonic() + 0.3
        self.until(lambda: time.monotonic() > pause)
        self.type("\x03")
        self.until(lambda: self.lines().count("interrupted") > seen and self.waits())

    def ended(self):
        """Waits for the end of the process; its exit code."""
        self.until(lambda: not self.process.isalive())
        return self.process.exitstatus

    def cell(self, text, offset=0):
        """The character of the screen at the last place of a text, with its colours."""
        row = max(k for k, line in enumerate(self.screen.display) if text in line)
        return self.screen.buffer[row][self.screen.display[row].index(text) + offset]
