#!/usr/bin/env bash
# From a Kubernetes cluster that has nothing of the scheduler to a finished elastic training. `try.sh --help` says how.
set -Eeuo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

IMAGE=${IMAGE:-elastic-gpu-scheduler}
TRAINING_IMAGE=${TRAINING_IMAGE:-elastic-training}
EPOCHS=${EPOCHS:-8}
SECONDS_MAX=${SECONDS_MAX:-300}
OVERLAY=manifests/overlays/trial
# More than one on a node, so that a small cluster resizes, too; no more in all than a large one starts in a moment.
WORKERS_PER_NODE=2
WORKERS_MAX=8

usage() {
  cat <<END
usage: examples/kubernetes/try.sh [run | clean | --help]

run     (the default) installs the scheduler on the cluster of kubectl, with the overlay trial, where a slot is a CPU.
        Trains a small network elastically; meanwhile a more important training takes workers of it and gives them back.
clean   deletes the trainings, the scheduler and both namespaces, sched-system and sched-jobs.

Variables:
  KUBECONFIG       the cluster; needs three free CPUs and a default storage class
  IMAGE            the scheduler's image, which the nodes have or can pull ($IMAGE)
  TRAINING_IMAGE   the workers' image ($TRAINING_IMAGE)
  EPOCHS           length of the training ($EPOCHS)
  SECONDS_MAX      the longest wait for a single step ($SECONDS_MAX)

The images:
  docker build -f manifests/Dockerfile -t elastic-gpu-scheduler .
  docker build -f examples/kubernetes/Dockerfile -t elastic-training examples
kind:
  kind load docker-image elastic-gpu-scheduler elastic-training
k3s:
  docker save elastic-gpu-scheduler elastic-training | sudo k3s ctr images import -
elsewhere:
  push them to a registry and set IMAGE and TRAINING_IMAGE to their names there
END
}

title() { printf '\n== %s\n' "$*"; }
say() { printf '%s\n' "$*"; }
die() { trap - ERR; printf 'try.sh: %s\n' "$*" >&2; exit 1; }
trap 'die "$BASH_COMMAND failed"' ERR

# What is done is shown, and what it prints. The last line of what fails says why.
run() {
  local output
  say "\$ $*"
  output=$("$@" 2>&1) || die "$1 failed: $(tail -n 1 <<<"$output")"
  [[ -z $output ]] || say "$output"
}

system() { kubectl --namespace sched-system "$@"; }
jobs() { kubectl --namespace sched-jobs "$@"; }
in_daemon() { system exec --stdin deployment/sched --container daemon -- "$@"; }

# What is not so yet is looked at again, for SECONDS_MAX.
await() { # WHAT COMMAND...
  local what=$1 until=$((SECONDS + SECONDS_MAX)); shift
  until "$@"; do
    ((SECONDS < until)) || die "$what: not within $SECONDS_MAX s"
    sleep 0.5
  done
}
status() { jobs get trainingjob "$1" --output "jsonpath={.status.$2}" 2>/dev/null; } # TRAINING FIELD
has_phase() { # TRAINING PHASE
  local phase; phase=$(status "$1" phase) || return 1
  [[ $phase != Failed && $phase != Refused ]] || die "the training $1 is $phase: $(status "$1" message)"
  [[ $phase == "$2" ]]
}
has_workers() { # TRAINING COUNT; one that has ended needs none any more
  has_phase "$1" Succeeded || { has_phase "$1" Running && [[ $(status "$1" workers) == "$2" ]]; }
}

check() {
  local command
  for command in kubectl openssl; do
    [[ -n $(command -v "$command") ]] || die "there is no $command"
  done
  kubectl get nodes --request-timeout 20s >/dev/null 2>&1 || die "kubectl reaches no cluster: is KUBECONFIG set?"
}

install() {
  title "Install the scheduler"
  run kubectl apply -f manifests/base/namespace.yaml
  if ! system get secret sched >/dev/null 2>&1; then
    say "\$ kubectl --namespace sched-system create secret generic sched --from-literal token=..."
    system create secret generic sched --from-literal "token=$(openssl rand -hex 16)"
  fi
  if [[ $IMAGE == elastic-gpu-scheduler ]]; then
    run kubectl apply -k "$OVERLAY"
  else
    say "\$ kubectl kustomize $OVERLAY | sed 's|image: elastic-gpu-scheduler|image: $IMAGE|' | kubectl apply -f -"
    kubectl kustomize "$OVERLAY" | sed "s|image: elastic-gpu-scheduler\$|image: $IMAGE|" | kubectl apply -f -
  fi
  run kubectl --namespace sched-system rollout status deployment/sched --timeout "${SECONDS_MAX}s"
}

# Sets SLOTS, the slots of a worker, so that a few fit on the largest node, and WORKERS, how many such there is room for.
measure() {
  read -r SLOTS WORKERS < <(in_daemon sched nodes --output json | in_daemon python -c "
import json, sys
nodes = json.load(sys.stdin)['nodes']
free = [node['slots'] - node['slots_foreign'] for node in nodes if node['health'] == 'UP' and not node['closed']]
slots = max(1, max(free, default=0) // $WORKERS_PER_NODE)
print(slots, min($WORKERS_MAX, sum(each // slots for each in free)))
")
}

training() { # NAME PRIORITY MIN MAX EPOCHS
  cat <<END
apiVersion: elastic-gpu-scheduler.io/v1alpha1
kind: TrainingJob
metadata:
  name: $1
  namespace: sched-jobs
spec:
  runtime: elastic
  command: [python, /training/digits.py, --epochs, "$5", --sample-seconds, "0.01"]
  env: {OMP_NUM_THREADS: "1"}
  priority: $2
  minWorkers: $3
  maxWorkers: $4
  slotsPerWorker: $SLOTS
  template:
    spec:
      containers:
        - name: worker
          image: $TRAINING_IMAGE
          imagePullPolicy: IfNotPresent
END
}
submit() { training "$@" | kubectl apply -f -; }

trainings() { run kubectl --namespace sched-jobs get trainingjobs; }
pods() {
  run kubectl --namespace sched-jobs get pods --selector elastic-gpu-scheduler/role=worker \
    --output custom-columns=POD:.metadata.name,NODE:.spec.nodeName,ADDRESS:.status.podIP,PHASE:.status.phase
}

train() {
  measure
  ((WORKERS >= 2)) || die "the nodes have room for $WORKERS workers, two are needed"
  local fewer=$((WORKERS - 1))

  title "Train with 1 to $WORKERS workers"
  submit digits 0 1 "$WORKERS" "$EPOCHS"
  await "the training digits has $WORKERS workers" has_workers digits "$WORKERS"
  trainings
  pods

  title "A more important training takes $fewer of them"
  submit urgent 10 "$fewer" "$fewer" 1
  await "the training urgent runs" has_phase urgent Running
  trainings

  title "It ends, and the first one has $WORKERS again"
  await "the training urgent ends" has_phase urgent Succeeded
  await "the training digits has $WORKERS workers again" has_workers digits "$WORKERS"
  trainings

  title "The first one ends"
  await "the training digits ends" has_phase digits Succeeded
  trainings
  run kubectl --namespace sched-system exec deployment/sched --container daemon -- sched events --job digits
}

clean() {
  title "Remove everything"
  # First the trainings: the scheduler lets go of them when their last worker is gone.
  if jobs get trainingjobs >/dev/null 2>&1; then
    run kubectl --namespace sched-jobs delete trainingjobs --all --timeout "${SECONDS_MAX}s"
  fi
  run kubectl delete -k "$OVERLAY" --ignore-not-found --timeout "${SECONDS_MAX}s"
}

case ${1:-run} in
  run) check; install; train; say; say "Done. To remove it all: examples/kubernetes/try.sh clean" ;;
  clean) check; clean ;;
  --help | -h | help) usage ;;
  *) usage >&2; exit 2 ;;
esac
