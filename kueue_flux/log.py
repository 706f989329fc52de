"""Structured logs: JSON lines for machines, colours for a terminal.

No object is ever logged whole: it may hold secrets.
"""

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Set up structlog for the process.

    Args:
        level: `debug`, `info`, `warning` or `error`; what is below is not computed.
    """
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
