# What the scripts of a container share: settings, the names of files, and how they speak. They source it.
# layout.py says what the settings and files mean, termination.py what the ends are called.
# shellcheck shell=sh disable=SC2034

config=${KUEUE_FLUX_CONFIG:-/etc/flux/config}
curve=${KUEUE_FLUX_CURVE:-/etc/flux/curve/curve.cert}
rundir=${KUEUE_FLUX_RUNDIR:-/run/flux}
termination_log=${KUEUE_FLUX_TERMINATION_LOG:-/dev/termination-log}
mode=${KUEUE_FLUX_MODE:-run}
quiet=${KUEUE_FLUX_QUIET:-}
debug=${KUEUE_FLUX_DEBUG:-}
strict=${KUEUE_FLUX_STRICT:-}
timed=${KUEUE_FLUX_TIMED:-}
archive=${KUEUE_FLUX_ARCHIVE:-}

private=$rundir/broker              # Flux wants a directory that is its user's own; a mounted one may be root's
socket=$private/local
ready=$rundir/ready                 # this rank's broker is up
hook=$private/hook                  # which of the user's hooks is running
environment=$private/environment    # the broker's, for those who enter this container
command_pid=$private/command.pid    # the command has begun
stopped=$private/stopped            # somebody asked for the end of the instance
kept=$private/kept                  # Flux's state is in the archive
result=$private/result              # the command has ended: its exit code, the reason, and more words
terminating=$private/terminating    # the container was told to stop
worker_lost=113

complain() { printf 'kueue-flux: %s\n' "$*" >&2; }
say() { [ -n "$quiet" ] || complain "$@"; }

# finish CODE REASON [WORDS]: end this container and say why.
finish() {
    # where there is no termination log the exit code alone has to do
    {
        printf 'exit-code=%s\nreason=%s\n' "$1" "$2"
        [ -z "${3:-}" ] || printf 'note=%s\n' "$3"
    } 2>/dev/null >"$termination_log" || :
    case $2:$1 in
        Terminated:*) exit 143 ;;
        WorkerLost:*) exit "$worker_lost" ;;
        *:"$worker_lost" | *:2 | *:128 | *:137 | *:143) exit 1 ;; # a command's own, but to the Job they mean something else
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

# quoted WORD: print a word as one could type it into a shell.
quoted() {
    case $1 in
        '' | *[!A-Za-z0-9_@%+=:,./-]*) printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")" ;;
        *) printf '%s' "$1" ;;
    esac
}

# shown WORD...: print words as one could type them.
shown() {
    for word in "$@"; do
        printf ' %s' "$(quoted "$word")"
    done
}

# interpreter: print the shell for what the user wrote: bash, which users of the Flux Operator had, where there is one.
interpreter() { command -v bash || echo /bin/sh; }

# clock: print hundredths of a second.
clock() {
    read -r up rest </proc/uptime
    echo "${up%.*}${up#*.}"
}

# took WHAT SINCE: say how long something took, as the Flux Operator does with time(1).
took() {
    hundredths=$(($(clock) - $2))
    seconds=$((hundredths / 100))
    if [ "$seconds" -ge 3600 ]; then
        length=$(printf '%d:%02d:%02d' $((seconds / 3600)) $((seconds / 60 % 60)) $((seconds % 60)))
    else
        length=$(printf '%d:%02d.%02d' $((seconds / 60)) $((seconds % 60)) $((hundredths % 100)))
    fi
    echo "FLUXTIME $1 wall time $length" >&2
}
