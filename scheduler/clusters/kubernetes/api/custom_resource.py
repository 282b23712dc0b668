"""Where the API server keeps TrainingJob objects."""

GROUP = "elastic-gpu-scheduler.io"
VERSION = "v1alpha1"
PLURAL = "trainingjobs"

#: Namespace and name of an object.
ObjectKey = tuple[str, str]
