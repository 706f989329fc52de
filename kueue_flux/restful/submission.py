"""A job that was asked for: the options of flux-restful-api, and what it takes for Flux to be asked for it.

Pure but for looking at directories; what Flux makes of a Submission is in `cluster`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping

from .answers import Problem, failed
from .fields import LARGEST, Field, environment, flag, options, text, whole, words

COUNT = {"type": "integer", "minimum": 1, "maximum": LARGEST}
PAIRS = {"type": "object", "additionalProperties": {"type": "string"}}
WORD = {"oneOf": [{"type": "string"}, {"type": "number"}]}
COMMAND = {"oneOf": [{"type": "string"}, {"type": "array", "items": WORD, "minItems": 1}]}

FIELDS = (
    Field("command", words, COMMAND, "The program and its arguments. Text is split into words; no shell is involved."),
    Field("num_tasks", whole(1), COUNT, "Number of tasks: 1, or one for each of num_nodes, if absent."),
    Field("cores_per_task", whole(1), COUNT, "Cores that each task gets: 1 if absent."),
    Field("gpus_per_task", whole(1), COUNT, "GPUs that each task gets: none if absent."),
    Field("num_nodes", whole(1), COUNT, "Nodes over which the tasks are spread."),
    Field("exclusive", flag, {"type": "boolean"}, "Whether the nodes are this job's alone; needs num_nodes."),
    Field("runtime", whole(0), {"type": "integer", "minimum": 0}, "Seconds after which it is ended: 0 is never."),
    Field("workdir", text, {"type": "string"}, "Directory to run in: absolute, and there already."),
    Field("envars", environment, PAIRS, "Environment variables, beside those of the server."),
    Field(
        "option_flags",
        options,
        {"oneOf": [{"type": "string"}, {"type": "object"}]},
        "Job shell options (flux-run(1), -o) as an object or as name=value,name=value, without -o.",
    ),
    Field(
        "is_launcher",
        flag,
        {"type": "boolean"},
        "The command is a workflow manager (nextflow, snakemake) that submits jobs itself: it runs beside the server.",
    ),
)

OPTION_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\Z")
PATH_OPTIONS = ("initrc", "userrc")
# what the job shell puts into the name of a file: none of these can contain a slash
TEMPLATE = re.compile(r"\{\{(id|jobid|size|nnodes|ntasks|node|task)(\.\w+)?\}\}")


@dataclass(frozen=True)
class Submission:
    """A job to be run.

    Args:
        command: The program and its arguments.
        workdir: Absolute path of an existing directory.
        env: The whole environment.
        num_tasks, cores_per_task, gpus_per_task, num_nodes, exclusive: The resources, as for `flux run`.
        runtime: Seconds after which it is ended, 0 for never.
        options: Job shell options by dotted name.
    """

    command: list[str]
    workdir: str
    env: Mapping[str, str] = field(repr=False)
    num_tasks: int = 1
    cores_per_task: int = 1
    gpus_per_task: int | None = None
    num_nodes: int | None = None
    exclusive: bool = False
    runtime: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


def submission(
    values: Mapping[str, Any], env: Mapping[str, str], workdir: str, defaults: Mapping[str, Any] | None = None
) -> Submission:
    """Make a job of the values of FIELDS.

    Args:
        values: As `read_fields` gives them.
        env: The environment that every job inherits.
        workdir: Where jobs run that say nothing about it.
        defaults: Job shell options of jobs that do not say otherwise; whoever runs the server chose them.

    Raises:
        Problem: 400 with all that is wrong.
    """
    if "command" not in values:
        raise failed(400, "A 'command' is minimally required.")
    given = {name: value for name, value in values.items() if name not in ("envars", "option_flags", "is_launcher")}
    num_nodes, options = values.get("num_nodes"), values.get("option_flags", {})
    job = Submission(
        **{
            **given,
            "num_tasks": values.get("num_tasks", num_nodes or 1),
            "workdir": values.get("workdir", workdir),
            "env": {**env, **values.get("envars", {})},
            "options": {**(defaults or {}), **_redirected(options)},
        }
    )
    errors = [*_resource_errors(job), *_directory_errors(job.workdir), *_option_errors(options, job.workdir)]
    if errors:
        raise bad_submission(*errors)
    return job


def bad_submission(*errors: str) -> Problem:
    """The problem of a job that cannot be asked for."""
    return failed(400, "Invalid submit request", Errors=list(errors))


def _redirected(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options with what the job shell needs beside a path, as `flux run --output` gives it: the type."""
    types = {name[: -len("path")] + "type": "file" for name in given if re.match(r"(output|input)\.\w+\.path\Z", name)}
    return {**types, **given}


def _resource_errors(job: Submission) -> list[str]:
    errors = []
    if job.exclusive and job.num_nodes is None:
        errors.append("exclusive: needs num_nodes, the number of nodes to have alone")
    if job.num_nodes is not None and job.num_nodes > job.num_tasks:
        errors.append(f"num_nodes: {job.num_tasks} tasks cannot be spread over {job.num_nodes} nodes; raise num_tasks")
    return errors


def _directory_errors(workdir: str) -> list[str]:
    if not workdir.startswith("/"):
        return [f"workdir: {workdir!r} must be an absolute path, one that begins with '/'"]
    if not _is_directory(workdir):
        return [f"workdir: there is no directory {workdir} on the lead node; create it first, or name one that exists"]
    return []


def _is_directory(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError:  # a name that is too long, a directory above that cannot be entered
        return False


def _option_errors(options: Mapping[str, Any], workdir: str) -> list[str]:
    errors = []
    for name, value in options.items():
        if name.startswith("-"):
            errors.append(f"option_flags: Please provide keys without -o, {name} is invalid.")
        elif not OPTION_NAME.match(name):
            errors.append(f"option_flags: {name!r} cannot be the name of an option, such as output.stdout.path")
        elif (name in PATH_OPTIONS or name.endswith(".path")) and workdir.startswith("/"):
            errors.extend(_path_errors(name, value, workdir))
    return errors


def _path_errors(name: str, path: Any, workdir: str) -> list[str]:
    """What is wrong with a path that is to be inside of the working directory."""
    if not isinstance(path, str) or not path:
        return [f"option_flags: {name} must be a path, as text"]
    plain = TEMPLATE.sub("x", path)
    if "{{" in plain:
        return [f"option_flags: {name}: of templates, a path here can have {{{{id}}}} and those of node and task"]
    root = os.path.realpath(workdir)
    inside = os.path.realpath(Path(root, plain))
    if os.path.commonpath([root, inside]) != root:
        return [f"option_flags: {name}: {path} is outside of the working directory {workdir}; write a path inside it"]
    return []
