"""The step that makes again what somebody has deleted of a MiniCluster."""

from datetime import timedelta

from kueue_flux.controller import mounts
from kueue_flux.controller.pods import unmounted_since
from kueue_flux.controller.resources import SECRETS
from kueue_flux.controller.turn import REFUSED, Turn
from kueue_flux.controller.writes import create_if_missing, delete_pods, pods_run
from kueue_flux.kueue.workload import Admission
from kueue_flux.manifests import after_admission, before_admission, for_convenience
from kueue_flux.manifests.common import certificate_name
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object

# How often it is looked for what somebody may have deleted of a MiniCluster: while brokers are missing, and else.
LOOK, LOOK_WHILE_UP = timedelta(minutes=1), timedelta(minutes=10)


async def restore(turn: Turn) -> bool:
    """Make again what somebody has deleted: what pods wait for soon, the rest when it is looked for now and again."""
    facts = turn.facts
    if turn.record is None or facts.admission is None or facts.decided or facts.finished:
        return True
    key, since = (facts.mc.namespace, facts.mc.name), unmounted_since(facts.pods)
    last = turn.restored.setdefault(key, turn.now)  # all of it has just been made, or may well be there
    up = sum(pod.ready for pod in facts.pods) >= turn.record["size"]
    due = last + (LOOK_WHILE_UP if up else LOOK)
    if since is not None and last < since + mounts.GRACE:
        due = since + mounts.GRACE
    if not turn.is_due(due):
        return True
    turn.restored[key] = turn.now
    turn.wake(LOOK_WHILE_UP if up else LOOK)
    *others, _ = before_admission(facts.mc)
    for manifest in (*others, *for_convenience(facts.mc)):
        await _restored(turn, manifest)
    if since is not None:
        await _restore_files(turn, facts.admission)
    return True


async def _restore_files(turn: Turn, admission: Admission) -> None:
    mc = turn.facts.mc
    files = after_admission(mc, admission, now=turn.now, cluster_domain=turn.cluster_domain)
    # the user's own certificate is the same again
    same = certificate_name(mc.name) if mc.spec.flux.curve_cert else None
    names = [manifest["metadata"]["name"] for manifest in files if manifest["kind"] == SECRETS.kind]
    secrets = [name for name in names if name != same]
    lost = await mounts.missing_secrets(turn.client, mc.namespace, secrets)
    if lost and await pods_run(turn.client, mc.namespace, mc.uid):
        # No two Secrets are alike: what runs has another certificate than what is yet to start will get.
        await delete_pods(turn.client, mc.namespace, mc.uid)
    for manifest in files:
        await _restored(turn, manifest)


async def _restored(turn: Turn, manifest: Object) -> bool:
    what = f"{manifest['kind']} {manifest['metadata']['name']}"
    try:
        if not await create_if_missing(turn.client, manifest):
            return False
    except ApiError as error:
        if error.status not in REFUSED:
            raise
        turn.events.append(("Warning", "NotRestored", f"{what} is gone and cannot be created again: {error.message}"))
        return False
    turn.events.append(("Warning", "Restored", f"{what} was gone, and is created again"))
    return True
