#!/bin/sh
# Runs a command, or without one a shell, beside the broker of this container: with its environment, in its directory,
# connected to its instance.
#   kubectl exec -it POD -- sh /etc/flux/config/enter.sh
#   kubectl exec POD -- sh /etc/flux/config/enter.sh flux jobs -a
set -u
# shellcheck source=kueue_flux/flux/scripts/common.sh
. "${0%/*}/common.sh"

if [ ! -e "$ready" ] || [ ! -S "$socket" ]; then
    complain 'the Flux broker of this container is not up'
    exit 1
fi
# shellcheck disable=SC1090
. "$environment"
cd "$(cat "$environment.directory")" || exit
# of this container, where jobs may run in others
unset HOSTNAME JOB_COMPLETION_INDEX
export FLUX_URI="local://$socket"
[ $# -gt 0 ] || set -- "$(interpreter)"
exec "$@"
