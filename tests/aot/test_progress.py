"""A program without Python shows how far its loops are, on one line of the terminal that it is on."""

import fcntl
import os
import re
import struct
import subprocess
import termios

from tests.aot.running import built, needs_compiler

pytestmark = needs_compiler
LOOPS = """
import io
fn wait(seconds: f64) {
  let start = io.seconds()
  while io.seconds() - start < seconds { }
}
fn main() {
  for i < progress(3, "all of\\n it") {
    for j < progress(50, "each of them") { wait(0.004) }
  }
}
"""


def test_the_line_of_a_loop_is_no_longer_than_the_terminal(tmp_path):
    path = tmp_path / "loops.dl"
    path.write_text(LOOPS)
    program = built(path, tmp_path)
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 70, 0, 0))
    with subprocess.Popen([program], stdout=theirs, stderr=theirs) as run:
        os.close(theirs)
        said = b""
        try:
            while more := os.read(ours, 1000):
                said += more
        except OSError:  # there is nobody at the other end any more
            pass
        assert run.wait(60) == 0
    os.close(ours)
    drawn = [line for line in said.decode().split("\r\x1b[K") if "each" in line]
    assert drawn and all(len(line) < 70 and line.startswith("all of  it ") for line in drawn)
    assert re.search(r"\r\x1b\[Kall of  it: 3 in .* s\r\n$", said.decode())
