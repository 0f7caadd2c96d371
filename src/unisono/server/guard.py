"""Run a program that must not outlive us: `python guard.py MODE SIGNAL PARENT program argument...`.

`exec` (Linux): ask the kernel for SIGNAL when the parent dies, then become the program.
`watch` (elsewhere): stay, start the program, and end it when the pipe on our standard input closes, which it does
whatever the parent died of.

Run by its path with nothing but the standard library, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from types import FrameType

PR_SET_PDEATHSIG = 1
NO_PARENT, NOT_FOUND = 125, 127  # exit codes, as of `timeout` and the shell
GRACE_S = 5.0


def become(program: list[str], last_signal: int, parent: int) -> None:
    """Replace ourselves with the program; the kernel signals it when the parent is gone."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, last_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    if os.getppid() != parent:  # it died before we asked
        sys.exit(NO_PARENT)
    os.execvp(program[0], program)


def watch(program: list[str]) -> int:
    """Run the program until it ends or our standard input closes; pass signals on."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []  # signals that came before there was a program to pass them on to

    def pass_on(number: int, _frame: FrameType | None) -> None:
        early.append(number) if child is None else child.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, pass_on)
    child = started = subprocess.Popen(program, stdin=subprocess.DEVNULL)
    for missed in early:
        child.send_signal(missed)

    def end_with_parent() -> None:
        while os.read(0, 4096):
            pass
        started.terminate()
        try:
            started.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            started.kill()

    threading.Thread(target=end_with_parent, daemon=True).start()
    return started.wait()


def main(arguments: list[str]) -> int:
    """The whole program."""
    mode, last_signal, parent, *program = arguments
    try:
        if mode == "watch":
            code = watch(program)
            return 128 - code if code < 0 else code
        become(program, int(last_signal), int(parent))
    except OSError as error:
        print(f"{program[0]}: {error.strerror}", file=sys.stderr)
    return NOT_FOUND


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
