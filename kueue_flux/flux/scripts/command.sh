#!/bin/sh
# The initial program of the lead's broker, begun when all brokers are up: runs the words that are its arguments, and
# writes down how that ended. Modes (script.py makes their words):
#   run          a command that submits one job and waits for it
#   launcher     a command that starts its tasks itself
#   batch        batch.sh, which submits a batch job
#   interactive  nothing: people come and use the instance
#   restful      a server through which people use it
# The last two stay until they are stopped, and have succeeded then.
set -u
# shellcheck source=kueue_flux/flux/scripts/common.sh
. "${0%/*}/common.sh"

counts_at=${KUEUE_FLUX_COUNTS_AT:-}
policy=${KUEUE_FLUX_QUEUE_POLICY:-}
rejoin=${KUEUE_FLUX_REJOIN:-}
size=$(number size)
tasks=$(number tasks)

is_persistent() { [ "$mode" = interactive ] || [ "$mode" = restful ]; }
has_job() { [ "$mode" = run ] || [ "$mode" = batch ]; }

# counts: print the options for so many nodes and tasks.
counts() {
    if [ "$tasks" -eq 0 ]; then
        echo "-N$size"
    elif [ "$tasks" -lt "$size" ]; then
        echo "-n$tasks"
    else
        echo "-N$size -n$tasks"
    fi
}

# why CODE: print the reason for the command's end, and more words where there is more to say.
why() {
    [ ! -e "$stopped" ] || { echo Stopped; return; }
    [ "$1" -ne 0 ] || { echo CommandSucceeded; return; }
    if has_job; then
        [ -n "$job" ] || { echo JobRejected; return; }
        case $(flux job status --json "$job" 2>/dev/null) in
            *'"exception_note":'*'node failure on '*) echo WorkerLost; return ;;
            *'"exception_note":'*'lost contact with job shell on '*) echo WorkerLost; return ;;
            *'"exception_type"'*'"alloc"'*) echo JobRejected; return ;;
        esac
    fi
    [ "$mode" != batch ] || ! failed=$(flux kvs get kueue-flux.batch.failed 2>/dev/null) ||
        { echo "BatchFailed $failed"; return; }
    case $1 in
        126) echo CommandNotExecutable ;;
        127) echo CommandNotFound ;;
        *) if [ "$1" -gt 128 ] && [ "$1" -le 192 ]; then echo CommandSignaled; else echo CommandFailed; fi ;;
    esac
}

# know_scheduler: have a scheduler that knows the queue policy: Fluxion, which was told it, else Flux's own.
know_scheduler() {
    case $(flux module list) in *sched-fluxion-qmanager*) return ;; esac
    [ "$policy" = easy ] && flux module remove sched-simple && flux module load sched-backfill && return
    note="spec.flux.scheduler.queuePolicy: this Flux has no scheduler that knows $policy"
    complain "$note"
    flux kvs put kueue-flux.ended=1
    printf '%s\n' "1 FluxFailed $note" >"$result"
    exit
}

# pass_over_jobs: remember which jobs there are, none of which is that of the command.
pass_over_jobs() {
    jobs_before=$(flux job last '[:]' 2>/dev/null | wc -l)
    [ "$jobs_before" -eq 0 ] || own_jobs="[:-$jobs_before]"
}

# attempt WORD...: run the command, and find out how that ended; the exit code is in $code.
attempt() {
    began=$([ -z "$timed" ] || clock)
    # a shell that becomes the command: its pid is noted first, and what cannot be run is 126 or 127
    # shellcheck disable=SC2016  # these are that shell's parameters
    /bin/sh -c 'echo "$$" >"$1"; shift; exec "$@"' kueue-flux "$command_pid" "$@" </dev/null
    code=$?
    [ -z "$timed" ] || took fluxsubmit "$began"
    job=
    if has_job; then
        job=$(flux job last "$own_jobs" 2>/dev/null | tail -n1) # the first of this instance
        [ -z "$quiet" ] || [ -z "$job" ] || { flux job status "$job"; code=$?; }
    fi
    reason=$(why "$code")
}

# is_worth_another_attempt: whether a worker was lost that comes again; stays until it has.
is_worth_another_attempt() {
    [ -n "$rejoin" ] && [ "$reason" = WorkerLost ] && [ ! -e "$terminating" ] || return
    say 'a worker was lost: the command runs again when all brokers are up'
    flux overlay status --wait=full --timeout=0 >/dev/null &
    echo $! >"$command_pid"
    wait $!
}

own_jobs='[-1:]'
if [ -n "$archive" ]; then
    flux kvs unlink -Rf kueue-flux # what an instance has left that was archived
    pass_over_jobs
    unset KUEUE_FLUX_SAVED KUEUE_FLUX_KEPT KUEUE_FLUX_READY
fi
case $policy in '' | fcfs) ;; *) know_scheduler ;; esac
: >"$ready"
# HOSTNAME and JOB_COMPLETION_INDEX name the lead's pod; tasks in other pods would inherit them
unset FLUX_DISABLE_JOB_CLEANUP HOSTNAME JOB_COMPLETION_INDEX
trap ': >"$stopped"' HUP # what `flux shutdown` sends to this shell and its children

# how many nodes and tasks is known only now
given=$#
for word in "$@"; do
    set -- "$@" "$word"
    # shellcheck disable=SC2046
    [ $(($# - given)) -ne "${counts_at:-0}" ] || set -- "$@" $(counts)
done
shift "$given"
[ $# -gt 0 ] || set -- sleep 2147483647 # interactive

if is_persistent; then say 'up, until it is stopped'; else say "runs:$(shown "$@")"; fi
attempt "$@"
while is_worth_another_attempt; do
    pass_over_jobs
    attempt "$@"
done
# What is decided here holds for all: workers ask for the key when they leave, and without it they count as
# lost, so that the Job can run all of them again.
! { [ -e "$stopped" ] && is_persistent; } || code=0
[ ! -e "$terminating" ] || { code=143; reason=Terminated; }
case $reason in WorkerLost | Terminated) ;; *) flux kvs put "kueue-flux.ended=$code" ;; esac
printf '%s %s\n' "$code" "$reason" >"$result.new" && mv "$result.new" "$result"
# and this ends well: the code is in the file, apart from what the broker itself may fail with later
