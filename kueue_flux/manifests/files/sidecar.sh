#!/bin/sh
# Runs a sidecar's commands beside the container that runs Flux.
#
# Run as `sh -c TEXT sidecar INIT WAIT COMMAND POST`. INIT, COMMAND and POST are the user's, shell text by the Flux
# Operator's definition: one shell evaluates them in turn, bash where there is one. WAIT is a file that must exist
# before COMMAND begins, or empty. They are arguments: this text is the same for everybody. Before it comes the
# function use_view (flux-view.sh).
#
# A container of a pod that Kubernetes keeps running as a sidecar is started again whenever it ends. So what has ended
# well is followed by waiting, and only a failure ends the container.
set -u

complain() { printf 'kueue-flux: %s\n' "$*" >&2; }
say() { [ -n "${KUEUE_FLUX_QUIET:-}" ] || complain "$@"; }

child=
stopped=

# The pod ends: all processes are told, as far as they can be told from those of other containers.
# shellcheck disable=SC2317  # called by the trap
stop() {
    stopped=yes
    if [ "$$" -eq 1 ]; then kill -TERM -1; else kill -TERM $child; fi 2>/dev/null
}
trap stop TERM INT

view=${KUEUE_FLUX_VIEW:-}
[ -z "$view" ] || use_view
shell="sh"
! command -v bash >/dev/null 2>&1 || shell=bash

# The traps of the user's own text replace this one; until it sets any, the shell waits for what it has called to end.
# shellcheck disable=SC2016  # these are that shell's parameters
"$shell" -c '
    trap "exit 143" TERM
    kueue_flux_init=$1 kueue_flux_wait=$2 kueue_flux_command=$3 kueue_flux_post=$4
    set --
    eval "$kueue_flux_init"
    [ -z "$kueue_flux_wait" ] || until [ -e "$kueue_flux_wait" ]; do sleep 0.2 2>/dev/null || sleep 1; done
    eval "$kueue_flux_command"
    kueue_flux_code=$?
    eval "$kueue_flux_post"
    exit "$((kueue_flux_code ? kueue_flux_code : $?))"
' sidecar "$@" </dev/null &
child=$!
[ -z "$stopped" ] || stop # the signal came just before
while :; do
    wait "$child"
    code=$?
    kill -0 "$child" 2>/dev/null || break # else a signal interrupted the wait
done
[ -z "$stopped" ] || exit "$code"
if [ "$code" -ne 0 ]; then
    complain "the sidecar's command ended with exit code $code, and is started again"
    exit "$code"
fi
say "the sidecar's command has ended"
exec 2>/dev/null # some shells speak of the signal that ends the sleep
child=
while [ -z "$stopped" ]; do
    sleep 60 &
    child=$!
    [ -n "$stopped" ] || wait "$child"
done
kill $child
exit 0
