"""This process's input, as a stream for a program elsewhere: from a terminal key by key, else as it comes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

_PIECE = 65536


def is_terminal() -> bool:
    """Whether a person types into this process and reads from it."""
    return sys.stdin.isatty() and sys.stdout.isatty()


@contextmanager
def raw() -> Iterator[None]:
    """Hand on every key as it is, ^C too, and show none; afterwards the terminal is as it was."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    tty.setraw(descriptor)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def keys() -> AsyncGenerator[bytes, None]:
    """Yield what is typed."""
    loop, typed = asyncio.get_running_loop(), asyncio.Queue[bytes]()
    descriptor = sys.stdin.fileno()
    loop.add_reader(descriptor, lambda: typed.put_nowait(os.read(descriptor, _PIECE)))
    try:
        while data := await typed.get():
            yield data
    finally:
        loop.remove_reader(descriptor)


async def sizes() -> AsyncGenerator[tuple[int, int], None]:
    """Yield the terminal's size, (columns, rows), and again after each change."""
    loop, changed = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        while True:
            changed.clear()
            size = os.get_terminal_size(sys.stdout.fileno())
            yield size.columns, size.lines
            await changed.wait()
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)


async def piped() -> AsyncGenerator[bytes, None]:
    """Yield what is piped or redirected into this process, to its end."""
    loop, pieces = asyncio.get_running_loop(), asyncio.Queue[bytes](maxsize=4)

    def read() -> None:
        while True:
            data = os.read(sys.stdin.fileno(), _PIECE)
            try:
                asyncio.run_coroutine_threadsafe(pieces.put(data), loop).result()
            except RuntimeError:
                return  # the loop is closed: nobody wants it any more
            if not data:
                return

    # A thread that does not keep the process: a regular file cannot be waited for, and a pipe may never end.
    threading.Thread(target=read, name="kueue-flux-stdin", daemon=True).start()
    while data := await pieces.get():
        yield data
