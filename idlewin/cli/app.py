"""The command line's entry: which verbs there are, and what an error looks like.

A verb lives in its own file and is imported when it is called, so that ``--help`` stays quick and
one verb that cannot be loaded does not take the others with it. No verb's work is done here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from idlewin.errors import Exit, IdlewinError

#: One line a verb: ``give-back`` is the function ``give_back`` of ``idlewin/cli/give_back.py``.
VERBS = {
    "run": "Run the controller: watch, decide, hand cards over.",
    "init": "Write a first rule, drafted from what the cluster shows.",
    "check": "Check rule files: errors by line, conflicts, doubts.",
    "plane": "Render cards, tenants and classes of work into manifests.",
    "test": "Run the tests of rules: *.test.yaml, in a simulated cluster.",
    "sources": "Show where demand can be seen, and probe Prometheus for it.",
    "doctor": "Say what is in the way of a first window, and what to do.",
    "audit": "Say who is on cards past whom, and which limits are none.",
    "explain": "Say why a rule's pool is where it is, and what it waits for.",
    "status": "Show all rules: phase, reason, since, until.",
    "adopt": "Give a ClusterQueue into a rule's hands.",
    "wake": "Say that users are coming: serving is brought back.",
    "give-back": "Bring serving back now, and seal the queues.",
    "pause": "Stop a rule: serving is brought back, nothing more is written.",
    "resume": "Let a paused or contested rule go on.",
    "replay": "Run a recorded trace through the same code, and score it.",
    "backtest": "Judge forecasters, and the rules in use, on recorded demand.",
    "tune": "Try other values of a rule on its history; show the change.",
}

_EPILOG = """\b
Exit codes:
  0    done
  1    done, and the answer is no: findings, or an end that was not reached
  2    change the command or the rule file
  3    the cluster or Prometheus did not answer; try again
  4    the API server refused: a permission, a conflict, a webhook
  130  interrupted
"""


class _Verbs(TyperGroup):
    """The verbs that are there; each is loaded when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = {
            verb: TyperCommand(verb, help=summary, callback=None)
            for verb, summary in VERBS.items()
            if find_spec(_module(verb))
        }

    def list_commands(self, _ctx: Any) -> list[str]:
        """The verbs in the order of the table."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The verb that is called, loaded."""
        if args and args[0] in self.commands:
            self.commands[args[0]] = load(args[0])
        return super().resolve_command(ctx, args)


def _module(verb: str) -> str:
    return f"idlewin.cli.{verb.replace('-', '_')}"


def load(verb: str) -> Any:
    """A verb's command. Raises IdlewinError where its file cannot be loaded."""
    try:
        module = import_module(_module(verb))
    except ImportError as error:
        message = f"{verb} cannot be loaded: {error}; install idlewin again with what it needs"
        raise IdlewinError(message) from error
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(verb, help=VERBS[verb] + _rest(getattr(module, verb.replace("-", "_"))))(
        getattr(module, verb.replace("-", "_"))
    )
    command: Any = typer.main.get_command(app)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            # Its name says what it is; Typer would add Python's type.
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 - called by that name
    return command


def _rest(function: Any) -> str:
    """What a verb's docstring says after its first line, a paragraph a line."""
    _, _, rest = cleandoc(function.__doc__ or "").partition("\n\n")
    paragraphs = (" ".join(part.split()) for part in rest.split("\n\n") if part.strip())
    return "".join(f"\n\n{paragraph}" for paragraph in paragraphs)


app = typer.Typer(
    cls=_Verbs,
    name="idlewin",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich's help page alone takes half of the time that --help may take
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        # Costs a tenth of the time that --help may take.
        from importlib.metadata import version as installed  # noqa: PLC0415

        typer.echo(f"idlewin {installed('idlewin')}")
        raise typer.Exit


@app.callback()
def idlewin(
    *,
    _show: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Lends idle GPU cards to batch work, and has serving back before its users return."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and end the process with a documented exit code."""
    try:
        app(args=arguments, prog_name="idlewin")
    except IdlewinError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # Whoever read our output has seen enough; what Python would still flush has no reader.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)


if __name__ == "__main__":
    main()
