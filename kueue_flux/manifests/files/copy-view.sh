#!/bin/sh
# Copies a Flux view out of its image into the volume at $1, which the application's container gets at the same path.
# Run by the view image's own shell, as `sh -c TEXT copy-view MOUNT [USE]`. USE is shell text that lets `flux` of the
# view at $view be found.
#
# Flux is found at $1/view/bin/flux. Views are laid out in two ways: the Flux Operator's, made by Spack (/opt/view is
# a link to /opt/views/._view/HASH, whose files are links into /opt/software), and one tree at /opt/view that was
# made for one mount path and is reached through links beside it.
set -eu
mount=$1

fail() {
    echo "copy-view: $*" >&2
    exit 1
}

tree=/opt/view
[ -d "$tree" ] || for tree in /opt/views/._view/*; do :; done
[ -d "$tree" ] || fail "this image has no Flux view: neither /opt/view nor /opt/views/._view is there"

if [ -e "$tree/.mounted-at" ]; then
    read -r made_for <"$tree/.mounted-at"
    [ "$mount" = "$made_for" ] || fail "this view works at $made_for only: set spec.flux.container.mountPath to it"
    for path in "$tree"/*; do
        name=${path##*/}
        [ -e "$mount/$name" ] || ln -s "view/$name" "$mount/$name"
    done
fi

rm -rf "$mount/view" "$mount/software/"* # of a copy that was interrupted: the kubelet may start this container again
mkdir -p "$mount/view"
cp -R -P "$tree/." "$mount/view/"
if [ -d /opt/software ]; then
    cp -R -P /opt/software "$mount/"
fi

# For people: `. MOUNT/flux-view.sh` finds flux and sets fluxsocket, MOUNT/flux-connect.sh opens a shell in the instance.
case ${2:+$mount} in
    '' | *\'*) ;; # none, or at a path that would have to be quoted
    *)
        printf "view='%s/view'\n%s\n" "$mount" "$2" >"$mount/flux-view.sh"
        printf ". '%s/flux-view.sh'\nflux proxy \"\$fluxsocket\" \"\${SHELL:-/bin/sh}\"\n" "$mount" >"$mount/flux-connect.sh"
        ;;
esac
