#!/bin/sh
# Takes idlewin out of a cluster in the order that loses nothing: what gives back is stopped when all
# is back. Queues stay closed; how to open them is told at the end.
#
#   deploy/uninstall.sh [--timeout 30m] [--force] [-n NAMESPACE] [-k KUSTOMIZATION]
#
# It needs kubectl, and idlewin with the same kubeconfig and context. Where idlewin is in the cluster
# only: IDLEWIN='kubectl exec -n idlewin-system deploy/idlewin -- idlewin' deploy/uninstall.sh
# Where not all is given back in time it ends with 1 and has stopped nothing: run it again, or with
# --force, which does not wait for batch, nor for Kueue to show the queues stopped.
set -eu

# The most that an overlay has, but for the operator's kinds, which go with the namespace.
base=$(dirname "$0")/overlays/ha namespace=idlewin-system timeout=30m force=
kubectl=${KUBECTL:-kubectl} idlewin=${IDLEWIN:-idlewin}

usage() {
    echo "usage: $0 [--timeout DURATION] [--force] [-n NAMESPACE] [-k KUSTOMIZATION]" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --force) force=--force ;;
    --timeout | -n | -k)
        [ $# -gt 1 ] || usage
        case $1 in
        --timeout) timeout=$2 ;;
        -n) namespace=$2 ;;
        -k) base=$2 ;;
        esac
        shift
        ;;
    *) usage ;;
    esac
    shift
done

# Without the definition there is no rule; an API server that does not answer says nothing of them.
rules() {
    crd=$($kubectl get crd idlerules.idlewin.dev --ignore-not-found -o name) || return 1
    [ -z "$crd" ] || $kubectl get idlerules.idlewin.dev -o name
}

# 1. The rules. One that is being deleted opens no window any more, and stays till all is back.
found=$(rules)
if [ -n "$found" ]; then
    $kubectl delete idlerules.idlewin.dev --all --wait=false
fi
# shellcheck disable=SC2086 # one word or none
if ! $idlewin give-back --all $force --timeout "$timeout"; then
    echo "not all is given back, and nothing was stopped: see above, then run this again" >&2
    exit 1
fi

# 2. The controller; the watchdog stays till it is sure that nothing was lent meanwhile.
$kubectl delete deployment idlewin -n "$namespace" --ignore-not-found --cascade=foreground
left=$(rules)
if [ -n "$left" ]; then
    echo "made anew meanwhile: $left; stop who makes it (Git?), then run this again" >&2
    exit 1
fi

# 3. The watchdog, then the rest: permissions, CRD, namespace.
$kubectl delete cronjob idlewin-watchdog -n "$namespace" --ignore-not-found --cascade=foreground
$kubectl delete -k "$base" --ignore-not-found

# 4. What is left to a person.
adopted='{range .items[?(@.metadata.annotations.idlewin\.dev/rule)]}{.metadata.name}{"\n"}{end}'
queues=$($kubectl get clusterqueues.kueue.x-k8s.io -o jsonpath="$adopted" 2>/dev/null || true)
for queue in $queues; do
    echo "ClusterQueue $queue is left as it is, closed; as it was before idlewin:" \
        "idlewin adopt $queue --undo --restore"
done
echo "idlewin is gone"
