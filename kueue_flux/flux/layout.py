"""One place for the paths, file names and environment names that a Flux container is built around.

The scripts read them, `broker.toml` points to them, and the Kubernetes manifests mount and set them. They are
kept here, apart from all of these, so that the three can only agree.
"""

from typing import Final

# -- where things are mounted in the container that runs Flux
CONFIG_DIR: Final = "/etc/flux/config"
"""Directory of `broker.toml`, `R.json`, the scripts, `size`, `tasks` and what the user wrote (read only)."""
CURVE_DIR: Final = "/etc/flux/curve"
"""Directory of the CURVE certificate as delivered; its mode may be too open for the broker."""
MUNGE_DIR: Final = "/etc/flux/munge"
"""Directory of the munge key as delivered."""
RESTFUL_AUTH_DIR: Final = "/etc/flux/token"
"""Directory of the RESTful API's token (read only)."""
RUN_DIR: Final = "/run/flux"
"""The broker's private directory, in memory: socket, the certificate's 0400 copy and the ready marker."""

# -- file names
BROKER_FILE: Final = "broker.toml"
RESOURCES_FILE: Final = "R.json"
START_FILE: Final = "start.sh"
SCRIPT_FILES: Final = (START_FILE, "common.sh", "hooks.sh", "command.sh", "batch.sh", "enter.sh")
"""The scripts, the same for every MiniCluster."""
SIZE_FILE: Final = "size"
TASKS_FILE: Final = "tasks"
RESTFUL_DIRECTORY: Final = "restful"
"""Of the RESTful API server's files, in CONFIG_DIR."""
RESTFUL_AUTH_FILE: Final = "token"
CURVE_FILE: Final = "curve.cert"
MUNGE_FILE: Final = "munge.key"
READY_FILE: Final = "ready"
CONFIG_FILES: Final = (BROKER_FILE, RESOURCES_FILE, SIZE_FILE, TASKS_FILE, *SCRIPT_FILES)
"""All that CONFIG_DIR holds, whatever the user wrote."""

# -- what the user wrote, each where there is such a thing
COMMAND_SCRIPT_FILE: Final = "script"
"""commands.script."""
BATCH_LINES_FILE: Final = "batch-lines"
"""The lines of a batch."""
BATCH_RAW_FILE: Final = "batch-raw"
"""The script of a raw batch."""
HOOK_FILES: Final = {
    "init": "init",
    "pre": "pre",
    "brokerPre": "broker-pre",
    "workerPre": "worker-pre",
    "post": "post",
}
"""The file of each of the user's hooks, by its field in `commands`."""

# -- derived
START_SCRIPT: Final = f"{CONFIG_DIR}/{START_FILE}"
RESOURCES: Final = f"{CONFIG_DIR}/{RESOURCES_FILE}"
CURVE_SOURCE: Final = f"{CURVE_DIR}/{CURVE_FILE}"
CURVE_COPY: Final = f"{RUN_DIR}/{CURVE_FILE}"
"""The certificate that the broker reads: a copy, because the broker refuses a file that others can read."""
READY: Final = f"{RUN_DIR}/{READY_FILE}"
"""Exists once this rank's broker is up (worker: state RUN; lead: quorum reached)."""
LOCAL_URI: Final = f"local://{RUN_DIR}/local"
"""Where `flux` commands in the container reach the broker (as FLUX_URI)."""
ENTER_SCRIPT: Final = f"{CONFIG_DIR}/enter.sh"
"""Runs the words that follow it beside the broker, connected to its instance; a shell where none follow."""
COMMAND_PID: Final = f"{RUN_DIR}/broker/command.pid"
"""The process that the lead runs; told to end (SIGTERM), it ends the instance."""
STOPPED: Final = f"{RUN_DIR}/broker/stopped"
"""Exists once somebody has asked for the end of the instance: it has not failed then."""
TERMINATION_LOG: Final = "/dev/termination-log"

# -- settings of the scripts
ENV_MODE: Final = "KUEUE_FLUX_MODE"
"""One of `Mode`; default `run`."""
ENV_COUNTS_AT: Final = "KUEUE_FLUX_COUNTS_AT"
"""After how many of start.sh's arguments the options for nodes and tasks come (-N, -n); unset for nowhere."""
ENV_QUIET: Final = "KUEUE_FLUX_QUIET"
"""`1`: nothing on stdout and stderr but the command's own output."""
ENV_LOG_LEVEL: Final = "KUEUE_FLUX_LOG_LEVEL"
"""Severity (syslog, 0-7) up to which the broker logs to stderr; default 3 (errors)."""
ENV_DEBUG: Final = "KUEUE_FLUX_DEBUG"
"""`1`: broker log level 7."""
ENV_STRICT: Final = "KUEUE_FLUX_STRICT"
"""`on` or `off`, see spec.logging.strict; unset where that is."""
ENV_TIMED: Final = "KUEUE_FLUX_TIMED"
"""`1`: say how long Flux and the command ran."""
ENV_ZEROMQ: Final = "KUEUE_FLUX_ZEROMQ"
"""`1`: log ZeroMQ's socket events, and broker log level 7."""
ENV_WRAP: Final = "KUEUE_FLUX_WRAP"
"""Words to run the broker with, separated by commas."""
ENV_LOGS: Final = "KUEUE_FLUX_LOGS"
"""The directory for the output of batch jobs; unset: the log, and /tmp/fluxout."""
ENV_MOUNT: Final = "KUEUE_FLUX_MOUNT"
"""Where flux-view.sh is put for people and scripts that know the Flux Operator (/mnt/flux); unset for nowhere."""
ENV_ARCHIVE: Final = "KUEUE_FLUX_ARCHIVE"
"""File with Flux's state: loaded at the start where it is there, saved at the end."""
ENV_QUEUE_POLICY: Final = "KUEUE_FLUX_QUEUE_POLICY"
"""In which order jobs start; other than fcfs, a scheduler is found that knows it."""
ENV_COMPLETE_WORKERS: Final = "KUEUE_FLUX_COMPLETE_WORKERS"
"""`1`: a worker whose broker fails ends well."""
ENV_REJOIN: Final = "KUEUE_FLUX_REJOIN"
"""`1`: when a worker was lost the lead waits until it is back, and runs the command again."""
ENV_MUNGE: Final = "KUEUE_FLUX_MUNGE"
"""Munge key as delivered, to be put where munge looks for it; unset for the image's own."""
ENV_MUNGE_KEY: Final = "KUEUE_FLUX_MUNGE_KEY"
"""Overrides where munge looks for it (/etc/munge/munge.key), for running outside containers."""
ENV_PYTHON_PATH: Final = "KUEUE_FLUX_PYTHON_PATH"
"""Where the view's Python finds its packages, in place of what start.sh finds in the view."""
ENV_VIEW: Final = "KUEUE_FLUX_VIEW"
"""Path of a Flux view (a prefix that holds bin/flux); what the image has itself goes before it."""
ENV_GRACE: Final = "KUEUE_FLUX_GRACE"
"""Seconds (10) that the command has to end after SIGTERM, before the broker is stopped itself."""
ENV_FULL_RC: Final = "KUEUE_FLUX_FULL_RC"
"""`1`: workers start with Flux's own rc scripts (all modules, rc1.d), not with the few modules that a job needs."""
ENV_CONFIG: Final = "KUEUE_FLUX_CONFIG"
"""Overrides CONFIG_DIR, for running outside containers."""
ENV_CURVE: Final = "KUEUE_FLUX_CURVE"
"""Overrides CURVE_SOURCE (a file), for running outside containers."""
ENV_RUNDIR: Final = "KUEUE_FLUX_RUNDIR"
"""Overrides RUN_DIR, for running outside containers."""
ENV_HOSTNAME: Final = "KUEUE_FLUX_HOSTNAME"
"""Overrides the host name by which a broker finds its rank, for running several on one host."""
ENV_HOST_PREFIX: Final = "KUEUE_FLUX_HOST_PREFIX"
"""What comes before the rank in that name, where `hostname` says another: on the node's network."""
ENV_TERMINATION_LOG: Final = "KUEUE_FLUX_TERMINATION_LOG"
"""Overrides TERMINATION_LOG, for running outside containers."""
ENV_INDEX: Final = "JOB_COMPLETION_INDEX"
"""The rank of this broker; Kubernetes sets it in the pods of an Indexed Job."""
