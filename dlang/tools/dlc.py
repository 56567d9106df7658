"""The command `dlc`: where a process of it begins, and ends quietly wherever Ctrl-C comes.

Nothing is imported before `main`, since an interruption of that would be a traceback.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from sys import UnraisableHookArgs


def main(argv: "Sequence[str] | None" = None) -> int:
    """Runs a command. 0: fine; 1: the program is wrong or failed; 2: the command line is wrong; 70: the
    compiler is at fault; 130: Ctrl-C."""
    try:
        lost = _lost() if argv is None else []
        from dlang.tools.command_line import run

        code = run(argv)
        if lost:
            raise KeyboardInterrupt
        return code
    except KeyboardInterrupt as e:
        if argv is None:
            _end_at_once()
        for note in getattr(e, "__notes__", ()):
            _say(f"dlc: interrupted {note}")
        return 130
    finally:
        if argv is None:  # nothing is left to be done but what Python does at its end
            _end_at_once()


def _lost() -> "list[object]":
    """A list that gets the interruptions which Python drops, because a finalizer or a callback has no caller to tell.

    Such a one comes again soon, when something else is under way.
    """
    import os
    import sys
    from _thread import start_new_thread
    from time import sleep

    lost: list[object] = []
    before = sys.unraisablehook

    def again() -> None:
        sleep(0.002)
        os.kill(os.getpid(), 2)

    def dropped(what: "UnraisableHookArgs") -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            lost.append(what.exc_type)
            start_new_thread(again, ())
        else:
            before(what)

    sys.unraisablehook = dropped
    return lost


def _end_at_once() -> None:
    """Lets Ctrl-C from now on end this process, which is ending."""
    import os
    from signal import SIG_IGN, SIGINT, getsignal, signal

    if getsignal(SIGINT) != SIG_IGN:
        signal(SIGINT, lambda number, frame: os._exit(130))


def _say(line: str) -> None:
    """Prints where errors go, if there is such a place."""
    import sys
    from contextlib import suppress

    with suppress(OSError, ValueError):
        print(line, file=sys.stderr)


if __name__ == "__main__":
    import sys

    sys.exit(main())
