"""The page of a FluxSetup's fields, docs/fluxsetup.md: `python -m kueue_flux.api.docs` writes it too."""

from __future__ import annotations

from pathlib import Path

from kueue_flux.api.docs import FieldRow, cell, default_of, fields, type_of
from kueue_flux.api.schema import structural
from kueue_flux.api.setup import FluxSetup

FILE: Path = Path(__file__).parents[2] / "docs" / "fluxsetup.md"

_HEAD = """<!-- Generated from kueue_flux/api by `python -m kueue_flux.api.docs`; do not edit. -->
# FluxSetup: quota and queues, said in one object

`flux-framework.org/v1alpha2`, cluster-scoped, `fs` for short. On a cluster that has kueue-flux and Kueue and
nothing else, three lines give the namespace `default` a queue with all that the nodes have, and MiniClusters in it
wait for quota from then on:

```yaml
apiVersion: flux-framework.org/v1alpha2
kind: FluxSetup
metadata: {name: default}
```

`kueue-flux setup` writes one from what the nodes have, with questions or (`--from-nodes`) without;
[examples/setup](../examples/setup) has a fuller one. An admin who has queues already needs none: what is said here
makes Kueue's own objects, and MiniClusters know only those. `--no-flux-setup` switches this part of the controller
off, and `config/rbac/setup.yaml` is not needed then.

## What it makes

| object | name | |
|---|---|---|
| ClusterQueue | the FluxSetup's | the quota; what you set on it beside (`stopPolicy`, `fairSharing` ...) stays |
| LocalQueue | `spec.queue`, in each namespace | `default` is given by Kueue to whoever names no queue |
| ResourceFlavor | each flavor's; `default-flavor` where there are no flavors | shared by all FluxSetups that name it |
| WorkloadPriorityClass | each key of `spec.priorities` | shared likewise |

All of it belongs to the FluxSetup by ownerReferences. What is there and was made by somebody else is never changed:
a ResourceFlavor or WorkloadPriorityClass that says the same, or of which the FluxSetup says nothing, is used as it
is; one that says otherwise, and a ClusterQueue or LocalQueue of a name that is needed, is named in the condition
`Accepted`.

## What the quota is

A resource that a ClusterQueue does not speak of is never admitted, so it speaks of cpu, memory and all else that
the nodes have (GPUs and other extended resources, ephemeral storage; not the number of pods). Where a FluxSetup
does not say how much, it is all that the schedulable nodes have (`allocatable`), and follows them within seconds.
Write `0` to give none. Schedulable are the nodes that are not cordoned and have no taint `NoSchedule` or
`NoExecute` that the flavor does not tolerate; one that several flavors of a FluxSetup select counts for that with
the most labels. Two FluxSetups that both leave it to the nodes both get all of them: both are warned
(`NodesGivenTwice`).

## What a change does

kueue-flux ends nothing that runs when a FluxSetup is changed or deleted.

- **Less quota than is used:** what runs goes on, and nothing new starts until enough has been given back; `Ready`
  says so. In a cohort what is above the quota is borrowed from then on, and others of the cohort may take it back
  (`preemption.reclaimWithinCohort`): an event says so.
- **A namespace is taken out, or `queue` is renamed:** its LocalQueue admits nothing more (`stopPolicy: Hold`) and
  is deleted when what runs in it has ended. What waits in it goes on waiting, for a LocalQueue of that name. In a
  namespace that no FluxSetup claims, a MiniCluster that names no queue needs no quota any more.
- **A flavor is taken out:** it stays in the ClusterQueue with a quota of 0 until nothing uses it.
- **A flavor's nodes are said otherwise:** what runs stays where it is.
- **A priority class gets another value:** what was submitted before keeps the old one. A class that is taken out is
  deleted, and Kueue takes no more Jobs that name it.
- **The FluxSetup is deleted:** its LocalQueues go at once, and what waits in them waits for others of that name.
  The ClusterQueue and its flavors stay, being deleted, until what they have admitted has ended. A FluxSetup that is
  made anew under the same name waits for that (`BeingDeleted`).

## Conditions

`Accepted` is False where it is not carried out as it stands, with the rest of it carried out:

| reason | |
|---|---|
| `InvalidSpec` | it can never work |
| `NamespaceClaimed` | an older FluxSetup has that namespace; it passes on when that one gives it up |
| `NameTaken` | a ClusterQueue or LocalQueue of that name is somebody else's |
| `FlavorConflict`, `PriorityConflict` | somebody else's flavor or class of that name says otherwise |

`Ready` is False as long as something is missing, and True with one of the last reasons where all is done:

| reason | |
|---|---|
| `NamespaceMissing` | a namespace does not exist; its queue is made when it comes |
| `FlavorWithoutNodes` | no node has the labels, and no quota is given: it is 0 |
| `BeingDeleted`, `QueueLeaving` | what was there before goes when what runs in it has ended |
| `ClusterQueueInactive` | Kueue's reason why the ClusterQueue admits nothing |
| `KueueNotReady`, `Refused` | Kueue is not installed or does not answer; the API server refuses |
| `QuotaExceedsNodes`, `FlavorWithoutNodes`, `NodesGivenTwice` | True: the quota is more than the nodes have now |
| `QuotaInUse`, `FlavorInUse`, `QueueInUse` | True: a change that takes until what runs has ended |

A MiniCluster that names no queue, in a namespace of which a FluxSetup is to make the LocalQueue `default`, waits
for that: `QuotaReserved=False`, `WaitingForSetup`. One that names a queue waits for it in any case.

The roles `view`, `edit` and `admin` may look at FluxSetups, and none of them may write one: that takes
cluster-admin, or a role of your own.
"""


def text() -> str:
    """Return the page."""
    schema = structural(FluxSetup)["properties"]
    spec = [_spec_row(row) for row in fields(schema["spec"], "spec")]
    status = [
        f"| `{row.path}` | {type_of(row.schema)} | {cell(row.schema.get('description', ''))} |"
        for row in fields(schema["status"], "status")
    ]
    return "\n".join(
        [
            _HEAD,
            "## Spec",
            "",
            "`[]` stands for each item of a list. All fields are optional but for a flavor's name.",
            "",
            "| Field | Type | Default | What it says |",
            "|---|---|---|---|",
            *spec,
            "",
            "## Status",
            "",
            "| Field | Type | What it says |",
            "|---|---|---|",
            *status,
            "",
        ]
    )


def _spec_row(row: FieldRow) -> str:
    what = cell(row.schema.get("description", ""))
    return f"| `{row.path}` | {type_of(row.schema)} | {default_of(row)} | {what} |"
