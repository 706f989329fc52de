# shellcheck shell=sh
# Lets `flux` of the view at $view be found, after what the image has itself. It is part of a sidecar's script, and a
# copied view has it as flux-view.sh, for people to source.
export PATH="$PATH:$view/bin"
if [ ! -e "$view/.mounted-at" ]; then # else it finds all else itself
    for site in "$view"/lib/python3*/site-packages; do
        [ -d "$site" ] && PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$site && export PYTHONPATH
    done
    flux version >/dev/null 2>&1 || export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$view/lib:$view/lib64"
fi
