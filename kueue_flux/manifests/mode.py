"""What a MiniCluster's lead does once Flux is up: the start script's arguments and settings, and the user's files."""

import re

from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.api.mode import Mode
from kueue_flux.flux import layout
from kueue_flux.flux.script import Arguments, batch_arguments, restful_arguments, run_arguments, script_command
from kueue_flux.manifests import restful

# flux-sched, etc/rc1.d/01-sched-fluxion
_WITHOUT_FLUXION = ("FLUXION_RESOURCE_RC_NOOP", "FLUXION_QMANAGER_RC_NOOP")


def arguments(mc: MiniCluster) -> Arguments:
    """The arguments of start.sh."""
    prefix = mc.prefix
    command = mc.command or script_command() if mc.mode in (Mode.RUN, Mode.LAUNCHER) else ()
    match mc.mode:
        case Mode.RUN:
            logging = mc.spec.logging
            return run_arguments(
                command,
                prefix=prefix,
                submit=mc.submit_command,
                options=mc.option_flags,
                quiet=logging.quiet,
                debug=logging.debug,
            )
        case Mode.LAUNCHER:
            return Arguments((*prefix, *command))
        case Mode.BATCH:
            return batch_arguments(prefix=prefix, options=mc.option_flags)
        case Mode.RESTFUL:
            return restful_arguments(mc.option_flags)
        case _:
            return Arguments()


def settings(mc: MiniCluster) -> dict[str, str]:
    """The environment variables by which the scripts learn how to go about it."""
    logging, flux, counts_at = mc.spec.logging, mc.spec.flux, arguments(mc).counts_at
    strict = {None: "", True: "on", False: "off"}[logging.strict]
    values = {
        layout.ENV_MODE: str(mc.mode),
        layout.ENV_COUNTS_AT: "" if counts_at is None else str(counts_at),
        layout.ENV_LOG_LEVEL: str(flux.log_level),
        layout.ENV_QUIET: "1" if logging.quiet else "",
        layout.ENV_DEBUG: "1" if logging.debug else "",
        layout.ENV_STRICT: strict,
        layout.ENV_TIMED: "1" if logging.timed else "",
        layout.ENV_ZEROMQ: "1" if logging.zeromq else "",
        layout.ENV_WRAP: flux.wrap,
        layout.ENV_HOST_PREFIX: f"{mc.name}-" if mc.spec.network.host_network else "",
        layout.ENV_LOGS: mc.flux_container.logs,
        layout.ENV_MOUNT: flux.container.mount_path,
        layout.ENV_PYTHON_PATH: flux.container.python_path,
        layout.ENV_ARCHIVE: mc.spec.archive.file,
        layout.ENV_QUEUE_POLICY: flux.scheduler.queue_policy,
        layout.ENV_COMPLETE_WORKERS: "1" if flux.complete_workers else "",
        layout.ENV_REJOIN: "1" if flux.rejoin else "",
        layout.ENV_MUNGE: f"{layout.MUNGE_DIR}/{layout.MUNGE_FILE}" if flux.munge_secret else "",
        # Fluxion's scripts, where a Flux before 0.77 runs them; a later one reads broker.toml
        **dict.fromkeys(_WITHOUT_FLUXION, "1" if flux.scheduler.simple else ""),
    }
    return {**{name: value for name, value in values.items() if value}, **restful.settings(mc)}


def user_files(mc: MiniCluster) -> dict[str, str]:
    """What the user wrote that shells read, as files of the configuration: the batch, the script, the hooks."""
    container = mc.flux_container
    commands = container.commands.model_dump(by_alias=True)
    found = {file: commands[field] for field, file in layout.HOOK_FILES.items()}
    if mc.mode is Mode.BATCH:
        raw = container.batch_raw
        found[layout.BATCH_RAW_FILE if raw else layout.BATCH_LINES_FILE] = (
            container.command if raw else joined(container.command)
        )
    elif mc.mode in (Mode.RUN, Mode.LAUNCHER):
        found[layout.COMMAND_SCRIPT_FILE] = unescaped(container.commands.script)
    return {file: text for file, text in found.items() if text.strip()}


def joined(lines: str) -> str:
    """Lines, with those joined that a backslash continues."""
    return lines.replace("\\\n", " ")


def unescaped(script: str) -> str:
    """A script as it was written for the Flux Operator, without the backslashes that its here-document takes away.

    POSIX.1-2017, Shell Command Language, section 2.7.4: a backslash before $, `, another backslash or a newline.
    """
    return re.sub(r"\\([$`\\\n])", lambda found: found[1].strip("\n"), script)
