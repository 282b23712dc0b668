"""Print the custom resource definition, for `kubectl apply -f -`."""

import sys

import yaml

from scheduler.daemon.trainingjobs.crd import definition

if __name__ == "__main__":
    yaml.safe_dump(definition(), sys.stdout, sort_keys=False, width=120)
