#!/bin/sh
# Boots this container's Flux broker and, on the lead (rank 0), runs what the arguments say in the way that the mode
# says (command.sh). Before it come the user's hooks (hooks.sh), after it `commands.post`.
#
# The arguments are passed on as they are and never become shell text.
set -u
# shellcheck source=kueue_flux/flux/scripts/common.sh
. "${0%/*}/common.sh"

view=${KUEUE_FLUX_VIEW:-}
mount=${KUEUE_FLUX_MOUNT:-}
grace=${KUEUE_FLUX_GRACE:-10}
full_rc=${KUEUE_FLUX_FULL_RC:-}
host_prefix=${KUEUE_FLUX_HOST_PREFIX:-}
logs=${KUEUE_FLUX_LOGS:-}
wrap=${KUEUE_FLUX_WRAP:-}
zeromq=${KUEUE_FLUX_ZEROMQ:-}
python_path=${KUEUE_FLUX_PYTHON_PATH:-}
munge=${KUEUE_FLUX_MUNGE:-}
munge_key=${KUEUE_FLUX_MUNGE_KEY:-/etc/munge/munge.key}
complete=${KUEUE_FLUX_COMPLETE_WORKERS:-}

is_lead() { [ "$rank" -eq 0 ]; }

# use_view: let a Flux that was brought along be found, after what the image has itself.
use_view() {
    export PATH="$PATH:$view/bin"
    [ -z "$python_path" ] || export PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$python_path"
    [ ! -e "$view/.mounted-at" ] || return 0 # it finds all else itself, and the command's environment stays its own
    for site in "$view"/lib/python3*/site-packages; do
        [ -d "$site" ] && [ -z "$python_path" ] && PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$site && export PYTHONPATH
    done
    # a view knows its own libraries; only one that does not gets ahead of the image's
    flux version >/dev/null 2>&1 || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$view/lib:$view/lib64"
}

# tell_how_to_enter: what users of the Flux Operator source, in hooks and by hand: `. /mnt/flux/flux-view.sh`.
tell_how_to_enter() {
    { [ -n "$mount" ] && mkdir -p "$mount"; } 2>/dev/null || return 0
    {
        printf 'export PATH=%s\n' "$(quoted "$PATH")"
        [ -z "${PYTHONPATH:-}" ] || printf 'export PYTHONPATH=%s\n' "$(quoted "$PYTHONPATH")"
        [ -z "${LD_LIBRARY_PATH:-}" ] || printf 'export LD_LIBRARY_PATH=%s\n' "$(quoted "$LD_LIBRARY_PATH")"
        printf 'export fluxsocket=%s\n' "$(quoted "local://$rundir/local")"
    } 2>/dev/null >"$mount/flux-view.sh" || : # the mount may be read-only
}

# prepare: what the broker needs to find.
prepare() {
    mask=$(umask)
    umask 077
    mkdir -p "$rundir" "$private" || finish 1 FluxFailed
    # of a container that ran here before
    rm -f "$ready" "$hook" "$command_pid" "$stopped" "$result" "$kept" "$terminating" \
        "$private/ended"
    # the broker refuses a certificate that others can read, and where files have a group a Secret's can be
    if ! { cp "$curve" "$private/curve.cert" && chmod 0400 "$private/curve.cert" &&
        mv -f "$private/curve.cert" "$rundir/curve.cert"; }; then
        complain "cannot copy the certificate from $curve to $rundir"
        finish 1 FluxFailed
    fi
    case $(cat "$rundir/curve.cert") in
        *public-key*=*secret-key*=*) ;;
        *)
            complain 'curve.cert in the Secret is no CURVE certificate: put there what "flux keygen curve.cert" writes'
            finish 1 FluxFailed
            ;;
    esac
    [ -z "$munge" ] || place_munge_key
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

# place_munge_key: put the key of the Secret where munge looks for it, as the one whose directory it is, since munge
# takes no other's.
place_munge_key() {
    directory=${munge_key%/*}
    if ! { mkdir -p "$directory" && cp "$munge" "$munge_key.new" && chmod 0400 "$munge_key.new" &&
        chown "$(stat -c %u:%g "$directory")" "$munge_key.new" && mv -f "$munge_key.new" "$munge_key"; }; then
        note="the key of spec.flux.mungeSecret cannot be put at $munge_key, where only its owner and root may write"
        complain "$note"
        finish 1 FluxFailed "$note"
    fi
}

# flux_version: print the version of Flux; slow enough to be left out where nobody reads it.
flux_version() {
    flux version 2>/dev/null | while read -r key value; do
        [ "$key" != libflux-core: ] || echo "$value"
    done
}

# -- the user's hooks

# hooked FILE...: whether there are such hooks.
hooked() {
    for file in "$@"; do
        [ ! -e "$config/$file" ] || return 0
    done
    return 1
}

# source_hooks STAGE FILE...: become a shell that sources them and goes on with this script at that stage.
source_hooks() {
    export KUEUE_FLUX_STAGE="$1" KUEUE_FLUX_CONFIG="$config" KUEUE_FLUX_HOOK="$hook" KUEUE_FLUX_NEXT="$0"
    shift
    export KUEUE_FLUX_HOOKS="$*"
    exec "$(interpreter)" "$config/hooks.sh"
}

# keep_words WORD..., and later have_words: the arguments, past a shell in which they would be in the hooks' way.
keep_words() {
    rm -rf "$private/words"
    mkdir "$private/words"
    position=0
    for word in "$@"; do
        position=$((position + 1))
        printf '%s.' "$word" >"$private/words/$position"
    done
}

# supervise: have the hooks and all that follows in a process of its own, since a shell that waits for what it
# sources takes no notice of signals, and a hook may call `exit`.
supervise() {
    (source_hooks view init) &
    child=$!
    [ -z "$terminated" ] || kill -TERM "$child" # the signal came just before
    trap 'terminated=yes; kill -TERM "$child" 2>/dev/null' TERM INT
    while :; do
        wait "$child"
        code=$?
        kill -0 "$child" 2>/dev/null || break # else a signal interrupted the wait
    done
    [ -e "$hook" ] || exit "$code"
    [ -z "$terminated" ] || finish 143 Terminated
    [ -z "$quiet" ] || cat "$hook.log" >&2
    [ "$code" -ne 0 ] || code=1 # it left before all was done
    name=commands.$(hook_field "$(cat "$hook")")
    complain "$name failed with exit code $code"
    finish "$code" PreFailed "$name failed with exit code $code"
}

# hook_field FILE: print the name of the field that a hook's file was made from.
hook_field() {
    case $1 in
        broker-pre) echo brokerPre ;;
        worker-pre) echo workerPre ;;
        *) echo "$1" ;;
    esac
}

# run_post: run commands.post to its end; its exit code is in $code.
run_post() {
    code=0
    [ -e "$config/post" ] || return 0
    (
        if [ "$strict" = on ]; then set -- -eu; else set --; fi
        exec "$(interpreter)" "$@" "$config/post"
    ) </dev/null &
    post=$!
    while :; do
        wait "$post"
        code=$?
        kill -0 "$post" 2>/dev/null || break # else a signal interrupted the wait
    done
    [ "$code" -eq 0 ] || say "commands.post failed with exit code $code"
}

# end CODE REASON [WORDS]: run commands.post, unless all is to run again, and end this container.
end() {
    case $2 in Terminated | WorkerLost) finish "$@" ;; esac
    run_post
    if [ "$strict:$1" = on:0 ] && [ "$code" -ne 0 ]; then
        finish "$code" PostFailed "commands.post failed with exit code $code"
    fi
    finish "$@"
}

# -- signals

# on_term: the container is to stop. The command gets the signal first (`flux run` hands it to the tasks), workers
# stay while it ends; the broker gets it when there is nothing to wait for, or when the wait takes too long.
# shellcheck disable=SC2317  # called by the trap
on_term() {
    if [ -n "$post" ]; then
        # the lead's decides; workers may be told to stop because the lead's has ended, and get the time to finish
        ! is_lead || kill -TERM "$post" 2>/dev/null
        return
    fi
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

# -- brokers

# be_broker OPTION...: become the broker, behind the words of spec.flux.wrap.
be_broker() {
    if [ -n "$wrap" ]; then
        set -f
        IFS=, # as `flux start --wrap` has it
        # shellcheck disable=SC2086
        exec $wrap flux broker "$@"
    fi
    exec flux broker "$@"
}

# run_broker ARG...: run the broker to its end; its exit code is in $code.
run_broker() {
    [ -z "$terminated" ] || finish 143 Terminated
    began=$([ -z "$timed" ] || clock)
    be_broker "--config-path=$config" "-Srundir=$private" "-Slocal-uri=local://$socket" \
        ${hostname:+"-Shostname=$hostname"} ${state:+"-Sstatedir=$state"} ${zeromq:+-Stbon.zmqdebug=1} \
        -Slog-stderr-mode=local "-Slog-stderr-level=$level" "$@" </dev/null &
    broker=$!
    [ -z "$terminated" ] || on_term # the signal came just before
    while :; do
        wait "$broker"
        code=$?
        kill -0 "$broker" 2>/dev/null || break # else a signal interrupted the wait
    done
    [ -z "$stopper" ] || kill "$stopper" 2>/dev/null # it may have seen for itself
    [ -z "$timed" ] || took fluxstart "$began"
}

lead() {
    # what Flux does at the end to jobs that still run takes four commands; after `flux run` there are none
    { [ "$mode" != run ] && [ "$mode" != batch ]; } || export FLUX_DISABLE_JOB_CLEANUP=1
    set -- /bin/sh "$config/command.sh" "$@"
    [ -z "$archive" ] || open_archive
    if [ -n "$archive" ]; then
        [ ! -e "$archive" ] || set -- "-Scontent.restore=$archive" "$@"
        set -- "-Scontent.dump=$KUEUE_FLUX_SAVED" "-Sbroker.rc3_path=$rc3" "$@"
    fi
    run_broker "$@"
    [ -z "$archive" ] || [ ! -e "$ready" ] || judge_archive
    if read -r ended reason note 2>/dev/null <"$result"; then
        [ "$code" -eq 0 ] || [ -e "$stopped" ] ||
            say "Flux failed after the command had ended: the broker exited with $code"
        [ "$ended" -ne 0 ] || [ -z "$unsaved" ] || end 1 FluxFailed "$unsaved"
        end "$ended" "$reason" "$note"
    fi
    [ -z "$terminated" ] || finish 143 Terminated
    when='before the command began'
    [ ! -s "$command_pid" ] || when='while the command ran'
    complain "Flux failed $when: the broker exited with $code"
    [ -z "$archive" ] || [ ! -e "$archive" ] || [ -e "$ready" ] || complain "it was to begin with the state in $archive"
    end 1 FluxFailed
}

# open_archive: find out whether Flux's state can be saved, before anything depends on it, and how it is to be done:
# what Flux has saved takes the place of the former state when all of it is there, and it was not lost at the start.
open_archive() {
    # Flux knows the format by the end of the name
    export KUEUE_FLUX_SAVED="${archive%/*}/.new-${archive##*/}" KUEUE_FLUX_KEPT="$kept"
    export KUEUE_FLUX_READY="$ready"
    unsaved="Flux's state cannot be saved to $archive"
    if ! (: >"$KUEUE_FLUX_SAVED") 2>/dev/null; then
        unsaved="$unsaved: its directory must exist, and be one to write to"
        complain "$unsaved"
        finish 1 FluxFailed "$unsaved"
    fi
    rm -f "$KUEUE_FLUX_SAVED"
    # shellcheck disable=SC2016  # Flux's shell expands them
    rc3="$(flux config builtin rc3_path)"' && if [ -e "$KUEUE_FLUX_READY" ]; then
        mv -f "$KUEUE_FLUX_SAVED" "$KUEUE_FLUX_ARCHIVE" && : >"$KUEUE_FLUX_KEPT"
    fi'
}

# judge_archive: say whether Flux's state was saved.
judge_archive() {
    if [ -e "$kept" ]; then
        unsaved=
        say "Flux's state is saved in $archive"
    else
        complain "$unsaved; what it had before is still there"
    fi
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
    if [ -s "$private/ended" ]; then # and the lead has shut the instance down
        run_post
        exit 0
    fi
    if [ -n "$complete" ]; then
        say "worker $rank lost its instance (its broker exited with $code), and counts as completed"
        exit 0
    fi
    complain "worker $rank lost its instance before the command had ended (its broker exited with $code)"
    finish "$worker_lost" WorkerLost
}

# provide_output_directory: where batch jobs leave their output, as users of the Flux Operator know it.
provide_output_directory() {
    export FLUX_OUTPUT_DIR="${logs:-/tmp/fluxout}"
    ! is_lead || mkdir -p "$FLUX_OUTPUT_DIR" && return
    complain "the directory $FLUX_OUTPUT_DIR cannot be made"
    finish 1 FluxFailed
}

boot() {
    if ! command -v flux >/dev/null 2>&1; then
        complain "there is no 'flux' here: use an image with Flux, or have the MiniCluster bring it along"
        finish 127 FluxNotFound
    fi
    level=${KUEUE_FLUX_LOG_LEVEL:-3}
    [ -z "$debug$zeromq" ] || level=7
    [ -z "$quiet" ] || level=0
    [ -n "$quiet" ] || say "$(uname -n) is rank $rank of $size, Flux $(flux_version)"
    [ -n "${SHELL:-}" ] || export SHELL=/bin/sh # Flux runs its scripts with it, else with bash, which may be missing
    case $mode:$logs in batch:* | *:?*) provide_output_directory ;; esac
    state= # where the lead keeps output and events: Flux's own choice, unless that cannot be written
    [ -w "${TMPDIR:-/var/tmp}" ] || state=$private/state
    (
        umask 077
        export -p >"$environment"
        pwd >"$environment.directory"
    )
    if is_lead; then lead "$@"; else worker; fi
}

rank=${JOB_COMPLETION_INDEX:-}
case $rank in
    '' | *[!0-9]*)
        complain 'JOB_COMPLETION_INDEX does not say which rank this is'
        finish 1 FluxFailed
        ;;
esac
hostname=${KUEUE_FLUX_HOSTNAME:-${host_prefix:+$host_prefix$rank}}
if ! size=$(number size) || ! number tasks >/dev/null; then
    complain "$config/size and $config/tasks must hold a number each"
    finish 1 FluxFailed
fi

broker=
unsaved=
post=
terminated=
stopper=
trap on_term TERM INT
own=worker-pre
! is_lead || own='broker-pre'
stage=${KUEUE_FLUX_STAGE:-first}
unset KUEUE_FLUX_STAGE
case $stage in
    first)
        prepare
        if hooked init pre "$own"; then
            keep_words "$@"
            supervise
        fi
        ;;
    view) ;;
    boot)
        unset KUEUE_FLUX_HOOKS KUEUE_FLUX_HOOK KUEUE_FLUX_NEXT KUEUE_FLUX_FILE KUEUE_FLUX_CODE
        set --
        position=1
        while [ -e "$private/words/$position" ]; do
            word=$(cat "$private/words/$position")
            set -- "$@" "${word%.}"
            position=$((position + 1))
        done
        boot "$@"
        ;;
esac
[ -z "$view" ] || use_view
tell_how_to_enter
[ "$stage" = first ] || source_hooks boot pre "$own"
boot "$@"
