#!/bin/sh
# Boots this container's Flux broker and, on the lead (rank 0), runs the command given as arguments.
#
# The arguments are options of `flux run`, `--` and the command's words. They are passed on as they are and never
# become shell text. layout.py says what the settings and files mean, termination.py what the exit codes do.
set -u

config=${KUEUE_FLUX_CONFIG:-/etc/flux/config}
curve=${KUEUE_FLUX_CURVE:-/etc/flux/curve/curve.cert}
rundir=${KUEUE_FLUX_RUNDIR:-/run/flux}
termination_log=${KUEUE_FLUX_TERMINATION_LOG:-/dev/termination-log}
quiet=${KUEUE_FLUX_QUIET:-}
debug=${KUEUE_FLUX_DEBUG:-}
launcher=${KUEUE_FLUX_LAUNCHER:-}
view=${KUEUE_FLUX_VIEW:-}
grace=${KUEUE_FLUX_GRACE:-10}
full_rc=${KUEUE_FLUX_FULL_RC:-}
hostname=${KUEUE_FLUX_HOSTNAME:-}

private=$rundir/broker              # Flux wants a directory that is its user's own; a mounted one may be root's
socket=$private/local
ready=$rundir/ready                 # this rank's broker is up
command_pid=$private/command.pid    # the command has begun
result=$private/result              # the command has ended: its exit code and the reason
terminating=$private/terminating    # the container was told to stop
worker_lost=113

complain() { printf 'kueue-flux: %s\n' "$*" >&2; }
say() { [ -n "$quiet" ] || complain "$@"; }
is_lead() { [ "$rank" -eq 0 ]; }

# finish CODE REASON: end this container and say why.
finish() {
    # where there is no termination log the exit code alone has to do
    printf 'exit-code=%s\nreason=%s\n' "$1" "$2" 2>/dev/null >"$termination_log" || :
    case $2:$1 in
        Terminated:*) exit 143 ;;
        WorkerLost:*) exit "$worker_lost" ;;
        *:"$worker_lost" | *:137 | *:143) exit 1 ;; # a command's own, but to the Job they mean something else
    esac
    exit "$1"
}

# number FILE: print the number in a file of the configuration.
number() {
    value=
    read -r value <"$config/$1" || : # a missing last newline is no error
    case $value in '' | *[!0-9]*) return 1 ;; esac
    echo "$value"
}

# shown WORD...: print words as one could type them into a shell.
shown() {
    for word in "$@"; do
        case $word in
            '' | *[!A-Za-z0-9_@%+=:,./-]*) printf " '%s'" "$(printf '%s' "$word" | sed "s/'/'\\\\''/g")" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
}

# use_view: let a Flux that was brought along be found, after what the image has itself.
use_view() {
    export PATH="$PATH:$view/bin"
    [ ! -e "$view/.mounted-at" ] || return 0 # it finds all else itself, and the command's environment stays its own
    for site in "$view"/lib/python3*/site-packages; do
        [ -d "$site" ] && PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$site && export PYTHONPATH
    done
    # a view knows its own libraries; only one that does not gets ahead of the image's
    flux version >/dev/null 2>&1 || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$view/lib:$view/lib64"
}

# prepare: what the broker needs to find.
prepare() {
    mask=$(umask)
    umask 077
    mkdir -p "$rundir" "$private" || finish 1 FluxFailed
    # of a container that ran here before
    rm -f "$ready" "$command_pid" "$result" "$terminating" "$private/ended"
    # the broker refuses a certificate that others can read, and where files have a group a Secret's can be
    if ! { cp "$curve" "$private/curve.cert" && chmod 0400 "$private/curve.cert" &&
        mv -f "$private/curve.cert" "$rundir/curve.cert"; }; then
        complain "cannot copy the certificate from $curve to $rundir"
        finish 1 FluxFailed
    fi
    ln -sf "$socket" "$rundir/local" # where a person looks for it
    # R counts what was admitted, it does not say which CPUs and GPUs of the node these are. Binding by it would put
    # the tasks of all pods of a node on its first CPUs, and hide every GPU; `flux run -o` can still ask for it.
    mkdir -p "$private/shell"
    cat >"$private/shell/kueue-flux.lua" <<'LUA'
for _, option in ipairs { "cpu-affinity", "gpu-affinity" } do
    if shell.options[option] == nil then shell.options[option] = "off" end
end
LUA
    export FLUX_SHELL_RC_PATH="${FLUX_SHELL_RC_PATH:+$FLUX_SHELL_RC_PATH:}$private/shell"
    umask "$mask"
}

# flux_version: print the version of Flux; slow enough to be left out where nobody reads it.
flux_version() {
    flux version 2>/dev/null | while read -r key value; do
        [ "$key" != libflux-core: ] || echo "$value"
    done
}

# why CODE: print the reason for the command's end.
why() {
    [ "$1" -ne 0 ] || { echo CommandSucceeded; return; }
    if [ -z "$launcher" ]; then
        [ -n "$job" ] || { echo JobRejected; return; }
        case $(flux job status --json "$job" 2>/dev/null) in
            *'"exception_note":'*'node failure on '*) echo WorkerLost; return ;;
            *'"exception_note":'*'lost contact with job shell on '*) echo WorkerLost; return ;;
            *'"exception_type"'*'"alloc"'*) echo JobRejected; return ;;
        esac
    fi
    case $1 in
        126) echo CommandNotExecutable ;;
        127) echo CommandNotFound ;;
        *) if [ "$1" -gt 128 ]; then echo CommandSignaled; else echo CommandFailed; fi ;;
    esac
}

# run_command WORD...: the broker's initial program, begun when all brokers are up.
run_command() {
    : >"$ready"
    # HOSTNAME and JOB_COMPLETION_INDEX name the lead's pod; tasks in other pods would inherit them
    unset KUEUE_FLUX_STAGE FLUX_DISABLE_JOB_CLEANUP HOSTNAME JOB_COMPLETION_INDEX
    if [ -n "$launcher" ]; then
        [ "${1:-}" != -- ] || shift
    else
        if [ "$tasks" -eq 0 ]; then
            set -- "-N$size" "$@"
        elif [ "$tasks" -lt "$size" ]; then
            set -- "-n$tasks" "$@"
        else
            set -- "-N$size" "-n$tasks" "$@"
        fi
        [ -z "$debug" ] || set -- -vvv "$@"
        # quiet: leave before the job's end is commented on; its exit code is asked for below
        [ -z "$quiet" ] || set -- --wait-event=start "$@"
        set -- flux run "$@"
    fi
    say "runs:$(shown "$@")"
    # a shell that becomes the command: its pid is noted first, and what cannot be run is 126 or 127
    # shellcheck disable=SC2016  # these are that shell's parameters
    /bin/sh -c 'echo "$$" >"$1"; shift; exec "$@"' kueue-flux "$command_pid" "$@" </dev/null
    code=$?
    job=
    if [ -z "$launcher" ]; then
        job=$(flux job last '[-1:]' 2>/dev/null) # the first of this instance
        [ -z "$quiet" ] || [ -z "$job" ] || { flux job status "$job"; code=$?; }
    fi
    # What is decided here holds for all: workers ask for the key when they leave, and without it they count as
    # lost, so that the Job can run all of them again.
    reason=$(why "$code")
    [ ! -e "$terminating" ] || { code=143; reason=Terminated; }
    case $reason in WorkerLost | Terminated) ;; *) flux kvs put "kueue-flux.ended=$code" ;; esac
    printf '%s %s\n' "$code" "$reason" >"$result.new" && mv "$result.new" "$result"
    exit # the code is in the file, apart from what the broker itself may fail with later
}

# on_term: the container is to stop. The command gets the signal first (`flux run` hands it to the tasks), workers
# stay while it ends; the broker gets it when there is nothing to wait for, or when the wait takes too long.
# shellcheck disable=SC2317  # called by the trap
on_term() {
    [ ! -e "$result" ] || return # the end has come already
    terminated=yes
    [ -n "$broker" ] || return # run_broker will see to it
    if [ -e "$terminating" ]; then # the second signal
        kill -TERM "$broker"
        return
    fi
    : >"$terminating"
    if ! is_lead && [ -e "$ready" ]; then
        stop_after "$grace" 5
    elif is_lead && [ -s "$command_pid" ]; then
        kill -TERM "$(cat "$command_pid")" 2>/dev/null # it may have ended just now
        stop_after "$grace" 5
    else
        stop_after 0 1
    fi
}

# stop_after SECONDS AGAIN: tell the broker to stop, and every AGAIN seconds once more: in its first moments it takes
# no notice, and later another signal cuts short what it waits for.
stop_after() {
    (
        trap 'kill "$sleeping"; exit' TERM
        delay=$1
        while :; do
            sleep "$delay" &
            sleeping=$!
            wait "$sleeping"
            kill -TERM "$broker" || exit
            delay=$2
        done
    ) 2>/dev/null &
    stopper=$!
}

# run_broker ARG...: run the broker to its end; its exit code is in $code.
run_broker() {
    [ -z "$terminated" ] || finish 143 Terminated
    flux broker "--config-path=$config" "-Srundir=$private" "-Slocal-uri=local://$socket" \
        ${hostname:+"-Shostname=$hostname"} ${state:+"-Sstatedir=$state"} \
        -Slog-stderr-mode=local "-Slog-stderr-level=$level" "$@" </dev/null &
    broker=$!
    [ -z "$terminated" ] || on_term # the signal came just before
    while :; do
        wait "$broker"
        code=$?
        kill -0 "$broker" 2>/dev/null || break # else a signal interrupted the wait
    done
    [ -z "$stopper" ] || kill "$stopper" 2>/dev/null # it may have seen for itself
}

lead() {
    # what Flux does at the end to jobs that still run takes four commands; after `flux run` there are none
    [ -n "$launcher" ] || export FLUX_DISABLE_JOB_CLEANUP=1
    run_broker env KUEUE_FLUX_STAGE=command /bin/sh "$0" "$@"
    if read -r ended reason 2>/dev/null <"$result"; then
        [ "$code" -eq 0 ] || say "Flux failed after the command had ended: the broker exited with $code"
        finish "$ended" "$reason"
    fi
    [ -z "$terminated" ] || finish 143 Terminated
    when='before the command began'
    [ ! -s "$command_pid" ] || when='while the command ran'
    complain "Flux failed $when: the broker exited with $code"
    finish 1 FluxFailed
}

worker() {
    # Of a worker itself a job needs no more than these modules, all else is asked of the lead. They load in 20 ms,
    # where Flux's own script starts Python, in all workers and only when the lead's has ended.
    rc1='flux module load heartbeat && flux module load resource'
    rc3='flux module remove resource && flux module remove heartbeat'
    if [ -n "$full_rc" ]; then
        rc1=$(flux config builtin rc1_path)
        rc3=$(flux config builtin rc3_path)
    fi
    export KUEUE_FLUX_READY="$ready" KUEUE_FLUX_ENDED="$private/ended"
    # shellcheck disable=SC2016  # Flux's shell expands them
    run_broker "-Sbroker.rc1_path=$rc1"' && : >"$KUEUE_FLUX_READY"' \
        '-Sbroker.rc3_path=if [ -e "$KUEUE_FLUX_READY" ]; then
            flux kvs get kueue-flux.ended >"$KUEUE_FLUX_ENDED" 2>/dev/null; '"$rc3; fi"
    [ -z "$terminated" ] || finish 143 Terminated
    [ ! -s "$private/ended" ] || exit 0 # and the lead has shut the instance down
    complain "worker $rank lost its instance before the command had ended (its broker exited with $code)"
    finish "$worker_lost" WorkerLost
}

rank=${JOB_COMPLETION_INDEX:-}
case $rank in
    '' | *[!0-9]*)
        complain 'JOB_COMPLETION_INDEX does not say which rank this is'
        finish 1 FluxFailed
        ;;
esac
if ! size=$(number size) || ! tasks=$(number tasks); then
    complain "$config/size and $config/tasks must hold a number each"
    finish 1 FluxFailed
fi
[ "${KUEUE_FLUX_STAGE:-}" != command ] || run_command "$@"

broker=
terminated=
stopper=
trap on_term TERM INT
[ -z "$view" ] || use_view
if ! command -v flux >/dev/null 2>&1; then
    complain "there is no 'flux' here: use an image with Flux, or have the MiniCluster bring it along"
    finish 127 FluxNotFound
fi
prepare
if [ -n "$quiet" ]; then level=0; elif [ -n "$debug" ]; then level=7; else level=${KUEUE_FLUX_LOG_LEVEL:-3}; fi
[ -n "$quiet" ] || say "$(uname -n) is rank $rank of $size, Flux $(flux_version)"
[ -n "${SHELL:-}" ] || export SHELL=/bin/sh # Flux runs its scripts with it, else with bash, which may be missing
state= # where the lead keeps output and events: Flux's own choice, unless that cannot be written
[ -w "${TMPDIR:-/var/tmp}" ] || state=$private/state
if is_lead; then lead "$@"; else worker; fi
