#!/bin/sh
# A batch: the user's lines, each a job of its own, run by one Flux instance inside of this one; or a script of the
# user's that does as it likes. What the first argument says:
#   submit OPTION...   on the lead: submits the batch as one job, and stays until it has ended
#   line INDEX         in the job of a line: becomes that line
#   (nothing)          in the batch job: submits the lines, prints what they print, in their order, and judges
#
# The jobs are called job-0, job-1 ... by the places of their lines; lines that are empty or begin with # are none.
# What they print comes to the lead through the KVS of the outer instance, since a batch may run anywhere.
set -u
# shellcheck source=kueue_flux/flux/scripts/common.sh
. "${KUEUE_FLUX_CONFIG:-/etc/flux/config}/common.sh"

lines=$config/batch-lines
raw=$config/batch-raw
named=12 # failures are counted, and so many of them named

# each_line FUNCTION: call it with the index and the text of each line that is a job.
each_line() {
    index=-1
    while read -r text <&3 || [ -n "$text" ]; do
        index=$((index + 1))
        case $text in '' | '#'*) ;; *) "$1" "$index" "$text" || return ;; esac
    done 3<"$lines"
}

# -- on the lead

submit() {
    script=$config/batch.sh
    if [ -e "$raw" ]; then prepare_raw; else set -- "$@" --job-name=batch; fi
    grep -q '^#[[:space:]]*flux:.*--output' "$script" || set -- "$@" --output=none # else a file, on whichever pod
    # a container sees all of its node's cores, and the job has those of R
    id=$(flux batch --conf=resource.noverify=true ${quiet:+--broker-opts=-Slog-stderr-level=0} "$@" "$script") || exit
    attach "$id"
    [ -e "$raw" ] || each_line collect
    exit "$code"
}

# prepare_raw: make the user's script one that Flux takes, which begins with #!.
prepare_raw() {
    script=$private/batch
    {
        read -r first <"$raw"
        case $first in '#!'*) ;; *) echo "#!$(interpreter)" ;; esac
        cat "$raw"
    } >"$script"
}

# attach ID: print what the job prints, and hand SIGTERM on to it; its exit code is in $code.
attach() {
    flux job attach ${quiet:+--wait-event=start} "$1" </dev/null &
    attached=$!
    trap 'kill -TERM "$attached"' TERM
    while :; do
        wait "$attached"
        code=$?
        kill -0 "$attached" 2>/dev/null || break # else a signal interrupted the wait
    done
}

# collect INDEX: put what a line has printed into files.
collect() {
    for stream in out err; do
        file=$FLUX_OUTPUT_DIR/job-$1.$stream
        flux kvs get --raw "kueue-flux.batch.$1.$stream" >"$file" 2>/dev/null || rm -f "$file" # it has not ended
    done
}

# -- in the batch job

run_lines() {
    ids=$(submit_lines) || exit
    all=0 failed=0 names='' code=0
    each_line follow
    [ "$failed" -eq 0 ] || tell_failures
    exit "$code"
}

submit_lines() {
    plain=
    each_line submit_line && submit_plain
}

# submit_line INDEX TEXT: at once where it begins with options of `flux submit`, else together with its neighbours.
submit_line() {
    case $2 in
        -*) submit_plain && printf '%s\n' "$2" | xargs flux submit "--job-name=job-$1" ;;
        *) plain="$plain $1" ;;
    esac
}

submit_plain() {
    # shellcheck disable=SC2086
    [ -z "$plain" ] || flux bulksubmit '--job-name=job-{}' /bin/sh "$config/batch.sh" line '{}' ::: $plain || return
    plain=
}

# follow INDEX: stay with a line's job until it has ended, and hand on what it prints.
follow() {
    id=${ids%%
*}
    ids=${ids#*
}
    if [ -n "${KUEUE_FLUX_LOGS:-}" ]; then # then it is not for the log
        flux job wait-event "$id" clean >/dev/null
    else
        flux job attach ${quiet:+--wait-event=start} "$id" </dev/null
    fi
    printed "$id" 2>/dev/null | hand_on --raw "kueue-flux.batch.$1.out=-"
    printed "$id" 2>&1 >/dev/null | hand_on --raw "kueue-flux.batch.$1.err=-"
    flux job status "$id" 2>/dev/null
    ended=$?
    all=$((all + 1))
    [ "$ended" -ne 0 ] || return 0
    failed=$((failed + 1))
    [ "$code" -ne 0 ] || code=$ended
    [ "$failed" -gt "$named" ] || names="$names${names:+, }job-$1 (exit code $ended)"
}

# hand_on ARG...: put something where the lead finds it: in the outer instance, and not with the batch job itself.
hand_on() { flux --parent kvs put --namespace=primary "$@"; }

# printed ID: print what a job that has ended had printed, and nothing about it.
printed() { flux job attach --wait-event=start "$1" </dev/null; }

tell_failures() {
    [ "$failed" -le "$named" ] || names="$names ..."
    say "$failed of $all jobs failed: $names"
    hand_on "kueue-flux.batch.failed=$failed of $all jobs failed: $names"
}

# become INDEX TEXT: be that line, if it is the one that is wanted.
become() { [ "$1" -ne "$wanted" ] || exec "$(interpreter)" -c "$2" 3<&-; }

case ${1:-} in
    submit)
        shift
        submit "$@"
        ;;
    line)
        wanted=$2
        each_line become
        ;;
    *) run_lines ;;
esac
