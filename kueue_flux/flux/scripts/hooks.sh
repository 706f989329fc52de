# Sources those of the user's hooks that are there, in one shell, and goes on with start.sh: what they export, their
# directory, umask and limits are those of the broker and of the command.
#
# Nothing of ours is in their way: what is needed here stands in the environment, and there are no arguments.
#   KUEUE_FLUX_HOOKS    names of files in the configuration's directory
#   KUEUE_FLUX_HOOK     where to say which of them is running
#   KUEUE_FLUX_NEXT     start.sh
# shellcheck shell=sh disable=SC1090,SC3040

case ${KUEUE_FLUX_STRICT:-} in
    on) (set -o pipefail) 2>/dev/null && set -o pipefail ;;
esac
for KUEUE_FLUX_FILE in ${KUEUE_FLUX_HOOKS}; do
    [ -e "$KUEUE_FLUX_CONFIG/$KUEUE_FLUX_FILE" ] || continue
    echo "$KUEUE_FLUX_FILE" >"$KUEUE_FLUX_HOOK"
    [ "${KUEUE_FLUX_STRICT:-}" != on ] || set -eu
    if [ -n "${KUEUE_FLUX_QUIET:-}" ]; then
        . "$KUEUE_FLUX_CONFIG/$KUEUE_FLUX_FILE" >"$KUEUE_FLUX_HOOK.log" 2>&1
    else
        . "$KUEUE_FLUX_CONFIG/$KUEUE_FLUX_FILE"
    fi
    KUEUE_FLUX_CODE=$?
    set +eu
    if [ "$KUEUE_FLUX_CODE" -ne 0 ]; then
        [ "${KUEUE_FLUX_STRICT:-}" = off ] || exit "$KUEUE_FLUX_CODE"
        # quiet promises nothing but the command's output
        [ -n "${KUEUE_FLUX_QUIET:-}" ] ||
            echo "kueue-flux: $KUEUE_FLUX_FILE failed with exit code $KUEUE_FLUX_CODE, and strict is false" >&2
    fi
done
rm -f "$KUEUE_FLUX_HOOK"
exec /bin/sh "$KUEUE_FLUX_NEXT"
