"""What a MiniCluster needs next: the steps of a turn, each a small function, in the order in which they run.

A step looks at the facts, does at most one thing, and says in the turn what it found. All steps can be
repeated at any time. The status is written once, after the last of them.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta

from kueue_flux.api.container import MiniClusterContainer
from kueue_flux.api.minicluster import MiniCluster
from kueue_flux.controller import accepted, mounts, status
from kueue_flux.controller.changes import follow
from kueue_flux.controller.conflicts import CLOCK_SKEW, HOLD
from kueue_flux.controller.pods import IMAGE_REASONS, PodView, unmounted_since
from kueue_flux.controller.resources import FOREIGN_WRITERS, JOBS, MINICLUSTERS
from kueue_flux.controller.restore import restore
from kueue_flux.controller.services import Services
from kueue_flux.controller.turn import REFUSED, Turn, refused, stamp
from kueue_flux.controller.writes import (
    ConflictingControllerError,
    LeftoverError,
    NameTakenError,
    Written,
    create,
    delete_files,
    delete_pods,
    pods_run,
    write_files,
)
from kueue_flux.kueue import labels as kueue
from kueue_flux.kueue.workload import Signal
from kueue_flux.manifests import after_admission, before_admission, for_convenience
from kueue_flux.manifests.services import services_job
from kueue_flux.runtime.errors import ApiError
from kueue_flux.runtime.resource import Object

# The Job controller makes pods within a second or two.
PODS_GRACE = timedelta(seconds=10)
# How long a service may run before it takes connections, without anything being said.
DEAF_GRACE = timedelta(seconds=30)
KUEUE_RETRY = timedelta(seconds=2)
# Its service, and, where its webhooks are registered by address, their names (Kueue 0.19, config/components/webhook).
KUEUE_WEBHOOKS = ("kueue", '"mjob.kb.io"', '"vjob.kb.io"')

CERTIFICATE_EXPOSED = (
    "everybody who may read this MiniCluster can read the certificate in spec.flux.curveCert, and may join its "
    "brokers: put it into a Secret and name that in spec.flux.curveCertSecret"
)


Step = Callable[[Turn], Awaitable[bool]]


async def notice_others(turn: Turn) -> bool:
    """Stand back where another operator writes this MiniCluster's status."""
    mc = turn.facts.mc
    key = (mc.namespace, mc.name)
    written = {manager: time or stamp(turn.now) for manager, time in turn.obj.get(FOREIGN_WRITERS, {}).items()}
    # A field that we do not write, or write with the same value, stays theirs: an old trace is no sign of work.
    times = {manager: datetime.fromisoformat(time) for manager, time in written.items()}
    recent = {manager: at for manager, at in times.items() if -CLOCK_SKEW <= turn.now - at < HOLD}
    if recent:
        turn.conflicts.see(key, f"{', '.join(sorted(recent))} writes its status", min(max(recent.values()), turn.now))
    conflict = turn.conflicts.current(key, turn.now)
    if conflict is None:
        return True
    turn.trouble = _conflict(conflict.what)
    turn.wake(HOLD - (turn.now - conflict.seen))
    return False


async def declare(turn: Turn) -> bool:
    """Create what must be there before admission; the suspended Job last, as the sign that all of it is there."""
    facts = turn.facts
    if facts.job is not None or facts.finished:
        return True
    if facts.mc.queue is None and (awaited := turn.awaited(facts.mc.namespace)):
        facts.obstacle = awaited
        return False
    *others, job = before_admission(facts.mc)
    services = services_job(facts.mc) if facts.services is not None else None
    job["metadata"].setdefault("annotations", {})[accepted.MADE_FROM] = accepted.annotation(turn.obj)
    try:
        for manifest in others:
            await create(turn.client, manifest)
        for manifest in for_convenience(facts.mc):
            await _create_if_free(turn, manifest)
        if services is not None:
            await _create_services(turn, services)
        created = await create(turn.client, job)
    except LeftoverError as leftover:
        turn.trouble = Signal("NameTaken", f"{leftover}; it is being deleted")
        turn.wake(timedelta(seconds=1))
        return False
    except NameTakenError as taken:
        turn.trouble = _taken(facts.mc, taken)
        turn.wake(timedelta(seconds=30))
        return False
    except ConflictingControllerError as conflict:
        turn.conflicts.see((facts.mc.namespace, facts.mc.name), str(conflict), turn.now)
        turn.trouble = _conflict(str(conflict))
        turn.wake(HOLD)
        return False
    except ApiError as error:
        away = error.status >= 500 and "failed calling webhook" in error.message
        if away and any(word in error.message for word in KUEUE_WEBHOOKS):
            # Its webhooks must see every Job, so without Kueue the API server takes none. What they refuse is a 403.
            facts.obstacle = Signal("KueueNotReady", f"Kueue does not answer: {error.message}")
            turn.wake(KUEUE_RETRY)
            return False
        if error.status not in REFUSED and not away:
            raise
        turn.trouble = refused(error)
        turn.wake(timedelta(seconds=30))
        return False
    turn.jobs.put(created)
    facts.job = turn.jobs.get(facts.mc.namespace, facts.mc.name)
    queue = f"for queue {facts.queue}" if facts.queue else "without a queue"
    turn.events.append(("Normal", "Created", f"created suspended Job {facts.mc.name} {queue}"))
    if facts.mc.spec.flux.curve_cert:
        turn.events.append(("Warning", "CertificateExposed", CERTIFICATE_EXPOSED))
    return True


async def _create_services(turn: Turn, manifest: Object) -> None:
    created = await create(turn.client, manifest)
    turn.jobs.put(created)
    if turn.facts.services is not None:
        turn.facts.services.job = turn.jobs.get(turn.facts.mc.namespace, turn.facts.mc.services_name)


async def _create_if_free(turn: Turn, manifest: Object) -> None:
    try:
        await create(turn.client, manifest)
    except NameTakenError as taken:
        others = f"reach it as {turn.facts.mc.name}-0.{turn.facts.mc.headless_name}"
        turn.events.append(("Warning", "NameTaken", f"{taken.what} is there and is not ours: {others}"))


async def withdraw(turn: Turn) -> bool:
    """Delete the files of an admission that has ended: by eviction, or because the run is over."""
    facts = turn.facts
    if facts.finished:
        if facts.timed_out and facts.job is not None:
            # Nothing has ended it: were its Workload activated again, pods would come that nothing is written for.
            await _delete_job(turn, facts.job)
        injected = facts.condition("Injected")
        if (facts.over or facts.timed_out) and injected and injected["status"] == "True":
            await delete_files(turn.client, facts.mc.namespace, facts.mc.name)
            turn.cleared = True
    elif facts.decided:
        if turn.record is None:
            # A process that wrote files and died before it said so left them to a run that has ended since.
            await delete_files(turn.client, facts.mc.namespace, facts.mc.name)
    elif facts.admission is None and turn.record is not None:
        await delete_files(turn.client, facts.mc.namespace, facts.mc.name)
        turn.record = None
        evicted = facts.workload.evicted if facts.workload else None
        why = f"{evicted.reason}: {evicted.message}" if evicted else "the admission is gone"
        turn.events.append(("Normal", "Evicted", f"certificate and configuration deleted ({why})"))
    return True


async def serve(turn: Turn) -> bool:
    """Bring its services up before the MiniCluster that calls them, one MiniCluster of a queue after the other."""
    facts, services = turn.facts, turn.facts.services
    if services is None or facts.job is None:
        return True
    if facts.decided or facts.finished:
        if services.job is not None:
            await _delete_job(turn, services.job)
    elif services.job is None:  # somebody has deleted it
        try:
            await _create_services(turn, services_job(facts.mc))
        except (LeftoverError, NameTakenError, ConflictingControllerError) as taken:
            turn.trouble = Signal("NameTaken", f"{taken}: its services cannot be started again")
            turn.wake(timedelta(seconds=30))
    elif services.gated and (services.queue is None or turn.has_turn()):
        services.job = await turn.patch_job(services.job, UNGATED)
    elif services.queue is None and services.suspended:
        services.job = await turn.patch_job(services.job, {"spec": {"suspend": False}})
    elif services.admitted and facts.gated:
        facts.job = await turn.patch_job(facts.job, UNGATED)
    return True


# What takes the gate of a Job away; nobody can put it back.
UNGATED = {"metadata": {"annotations": {kueue.ADMISSION_GATED_BY: None}}}


async def _delete_job(turn: Turn, job: Object) -> None:
    meta = job["metadata"]
    if "deletionTimestamp" in meta:
        return
    try:
        await turn.client.delete(JOBS, meta["name"], meta["namespace"], uid=meta["uid"])
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise


async def inject(turn: Turn) -> bool:
    """Write the certificate and the configuration of the admission in force."""
    facts, admission = turn.facts, turn.facts.admission
    if admission is None or facts.finished or facts.decided:
        return True
    if turn.record and turn.record["id"] == admission.id:
        return True
    if facts.services is not None and not facts.services.ready:
        return True  # the pods wait for these files, so they wait for the services
    # No pod runs without files, so before these are written none runs but with those of a former admission. The API
    # server is asked: where news of the eviction came late, news of the pods may come later still.
    again = bool(facts.status.get("admissions"))
    early = again and await pods_run(turn.client, facts.mc.namespace, facts.mc.uid)
    files = after_admission(facts.mc, admission, now=turn.now, cluster_domain=turn.cluster_domain)
    try:
        written = await write_files(turn.client, files)
    except NameTakenError as taken:
        turn.trouble = Signal("NameTaken", str(taken))
        turn.wake(timedelta(seconds=30))
        return False
    except ApiError as error:
        if error.status not in REFUSED:
            raise
        turn.trouble = refused(error)
        turn.wake(timedelta(seconds=30))
        return False
    if turn.record is not None or written == Written.REPLACED or (early and written == Written.CREATED):
        # An eviction and the next admission went by unseen, or were seen late: pods started with the former files.
        await delete_pods(turn.client, facts.mc.namespace, facts.mc.uid)
    turn.record = {"id": admission.id, "size": admission.size, "injectedAt": stamp(turn.now)}
    turn.injected += 1
    where = f" by ClusterQueue {admission.cluster_queue}" if admission.cluster_queue else ""
    turn.events.append(("Normal", "Admitted", f"{admission.size} of {facts.mc.spec.size} pods admitted{where}"))
    turn.events.append(("Normal", "FilesWritten", status.files_written(admission.size)))
    return True


async def start(turn: Turn) -> bool:
    """Unsuspend a Job that has no queue; any other is Kueue's to unsuspend."""
    facts = turn.facts
    if facts.job and facts.queue is None and facts.suspended and turn.record and not facts.decided:
        await turn.patch_job(facts.job, {"spec": {"suspend": False}})
    return True


async def look_into_delays(turn: Turn) -> bool:
    """Find out what keeps pods from starting of which nothing is heard: they are not made, or lack a volume."""
    facts = turn.facts
    if facts.decided or facts.finished:
        return True
    if facts.services is not None:
        facts.services.holdup = await _unmounted(turn, facts.services.pods, facts.mc.spec.services)
        facts.services.holdup = facts.services.holdup or _deaf(turn, facts.services)
    if turn.record is None:
        return True
    if not facts.pods:
        started = facts.job["status"].get("startTime") if facts.job else None
        if started is not None and turn.is_due(datetime.fromisoformat(started) + PODS_GRACE):
            facts.holdup = Signal(
                "PodsNotCreated",
                f"Job {facts.mc.name} has made no pods in {PODS_GRACE.seconds} s: kubectl describe job "
                f"{facts.mc.name} tells why (a quota or a policy of the namespace, or a ServiceAccount or RuntimeClass "
                "that does not exist)",
            )
        return True
    flux = facts.mc.spec.flux
    secrets = [name for name in (flux.curve_cert_secret, flux.munge_secret) if name]
    facts.holdup = await _unmounted(turn, facts.pods, facts.mc.spec.containers, secrets)
    if any(pod.stuck and pod.stuck.reason in IMAGE_REASONS for pod in facts.pods):
        names = [*(c.image_pull_secret for c in facts.mc.spec.containers), flux.container.image_pull_secret]
        facts.no_pull_secret = await mounts.missing_secrets(turn.client, facts.mc.namespace, names)
    return True


async def _unmounted(
    turn: Turn, pods: list[PodView], containers: list[MiniClusterContainer], secrets: Iterable[str] = ()
) -> Signal | None:
    since = unmounted_since(pods)
    if since is None or not (secrets or any(container.volumes for container in containers)):
        return None
    if not turn.is_due(since + mounts.GRACE):
        return None
    turn.wake(mounts.GRACE)
    return await mounts.unmounted(turn.client, turn.facts.mc.namespace, containers, secrets)


def _deaf(turn: Turn, services: Services) -> Signal | None:
    """Say which service runs and takes no connections, once it has had the time to."""
    ports = {service.name: service.ports for service in turn.facts.mc.spec.services}
    for pod in services.pods:
        for name, since in pod.starting:
            if turn.is_due(datetime.fromisoformat(since) + DEAF_GRACE):
                port = next(iter(ports.get(name, [])), "")
                said = f"container {name} has taken no connections on port {port} in {DEAF_GRACE.seconds} s"
                return Signal("ServicesNotReady", f"pod {pod.name}: {said}")
    return None


async def wait(turn: Turn) -> bool:
    """Look again later for what no event will announce: a Kueue that stays silent, a lead's last words."""
    facts = turn.facts
    if facts.job and facts.queue and facts.workload is None and not facts.decided:
        created = datetime.fromisoformat(facts.job["metadata"]["creationTimestamp"])
        if turn.now - created < status.KUEUE_GRACE:
            turn.wake(status.KUEUE_GRACE - (turn.now - created))
    if facts.decided and (facts.termination is None or facts.timed_out) and not facts.finished:
        turn.wake(timedelta(seconds=1))
    return True


async def expire(turn: Turn) -> bool:
    """Delete a finished MiniCluster once its time to live is over; what it owns goes with it."""
    ttl = turn.facts.mc.seconds_to_live
    ended = turn.facts.status.get("completionTime")
    if ttl is None or not turn.facts.finished or ended is None:
        return True
    due = datetime.fromisoformat(ended) + timedelta(seconds=ttl)
    if due > turn.now:
        turn.wake(due - turn.now)
        return True
    meta = turn.obj["metadata"]
    try:
        await turn.client.delete(MINICLUSTERS, meta["name"], meta["namespace"], uid=meta["uid"])
    except ApiError as error:
        if not (error.not_found or error.conflict):
            raise
    turn.gone = True
    return False


STEPS: tuple[Step, ...] = (
    notice_others,
    declare,
    follow,
    withdraw,
    serve,
    inject,
    start,
    restore,
    look_into_delays,
    wait,
    expire,
)


def _taken(mc: MiniCluster, taken: NameTakenError) -> Signal:
    if mc.spec.network.headless_name and taken.what == f"Service {mc.headless_name}":
        remedy = "choose another spec.network.headlessName, or wait for the MiniCluster that has this one"
        return Signal("NameTaken", f"{taken.what} is there and is not ours: {remedy}")
    return Signal("NameTaken", str(taken))


def _conflict(what: str) -> Signal:
    return Signal(
        "ConflictingController",
        f"another operator is at work on MiniClusters in this cluster ({what}): run either it or kueue-flux",
    )
