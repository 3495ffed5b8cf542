#!/bin/sh
# Starts a node in a container. Every setting may be given as an OTTLA_… variable or as a flag of `ottla start`; here is
# only what a container knows of itself and the node can't.
#
#   entrypoint.sh start [flags]     a node
#   entrypoint.sh anything else     any other command of ottla, as `docker run ottla topic list`
#
# In a StatefulSet (POD_NAME is set, as ottla-2) the pod's number and its headless service say who the node is and where
# the others are:
#   POD_NAME      name of the pod; its number + 1 is the node id
#   POD_SERVICE   domain of the headless service, as ottla.default.svc.cluster.local
#   POD_REPLICAS  how many pods found the cluster (3); those that come later join it
#   NODE_NAME     the machine, whose zone is the node's rack
set -eu

here=$(dirname "$0")

wait_for_own_name() {
    # The name of a pod is known a moment after its start, and the node needs it at once.
    tries=0
    until getent hosts "$1" >/dev/null; do
        tries=$((tries + 1))
        if [ "$tries" -gt "${POD_NAME_TRIES:-60}" ]; then
            echo "entrypoint: nobody knows the address of $1" >&2
            exit 1
        fi
        sleep 1
    done
}

know_the_pod() {
    set_name=${POD_NAME%-*}
    number=${POD_NAME##*-}
    : "${OTTLA_NODE_ID:=$((number + 1))}"
    : "${OTTLA_ADVERTISED_ADDRESS:=$POD_NAME.$POD_SERVICE}"
    : "${OTTLA_CLUSTER_PORT:=7946}"
    if [ -z "${OTTLA_SEEDS:-}" ]; then
        OTTLA_SEEDS=""
        at=0
        while [ "$at" -lt "${POD_REPLICAS:-3}" ]; do
            OTTLA_SEEDS="$OTTLA_SEEDS${OTTLA_SEEDS:+,}$set_name-$at.$POD_SERVICE:$OTTLA_CLUSTER_PORT"
            at=$((at + 1))
        done
    fi
    if [ -z "${OTTLA_RACK:-}" ] && [ -n "${NODE_NAME:-}" ]; then
        OTTLA_RACK=$(python3 "$here/zone.py" "$NODE_NAME")
        [ -n "$OTTLA_RACK" ] || unset OTTLA_RACK
    fi
    export OTTLA_NODE_ID OTTLA_ADVERTISED_ADDRESS OTTLA_CLUSTER_PORT OTTLA_SEEDS
    [ -z "${OTTLA_RACK:-}" ] || export OTTLA_RACK
    wait_for_own_name "$OTTLA_ADVERTISED_ADDRESS"
}

if [ "${1:-start}" = start ]; then
    : "${OTTLA_ADDRESS:=0.0.0.0}"
    : "${OTTLA_HTTP_ADDRESS:=$OTTLA_ADDRESS}"
    : "${OTTLA_HTTP_PORT:=8080}"
    if [ -n "${POD_NAME:-}" ]; then
        know_the_pod
    else
        : "${OTTLA_ADVERTISED_ADDRESS:=$(hostname)}"
        export OTTLA_ADVERTISED_ADDRESS
    fi
    export OTTLA_ADDRESS OTTLA_HTTP_ADDRESS OTTLA_HTTP_PORT
fi

# exec: the node is process 1, and gets the signals.
exec ottla "$@"
