"""Arguments that several commands share: a MiniCluster's name, and a command line of the user's own."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from kueue_flux.cli import options

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        parser=options.nonempty,
        help="The MiniCluster's name.",
        show_default=False,
        autocompletion=options.complete_name,
    ),
]


class CommandAfterDashes(TyperCommand):
    """A command whose last argument is a command line: everything after `--`, and only that."""

    before = "NAME"
    example = "NAME -- COMMAND..."

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take what stands after the dashes as it is."""
        dashes = args.index("--") if "--" in args else len(args)
        rest = super().parse_args(ctx, args[:dashes])
        if ctx.params["command"]:
            ctx.fail(f"the command to run goes after two dashes: kueue-flux {self.name} {self.example}")
        ctx.params["command"] = tuple(args[dashes + 1 :]) or None
        return rest

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        """Say it as it is to be typed."""
        return ["[OPTIONS]", self.before, "-- COMMAND..."]


class OptionalCommandAfterDashes(CommandAfterDashes):
    """The same, where no command has a meaning of its own."""

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        """Say it as it is to be typed."""
        return ["[OPTIONS]", self.before, "[-- COMMAND...]"]


class FileOrCommandAfterDashes(CommandAfterDashes):
    """The same, where a file may stand in place of the command."""

    example = "--image IMAGE -- COMMAND..."

    def collect_usage_pieces(self, _ctx: Any) -> list[str]:
        """Say it as it is to be typed."""
        return ["[OPTIONS]", "[FILE | -- COMMAND...]"]
