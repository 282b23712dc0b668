"""Jobs as objects of Kubernetes: a TrainingJob enters the queue, and its status tells what has become of it.

crd         the custom resource, made from what the HTTP API takes
resource    what an object asks for, and the status that it is given; pure
controller  keeps objects and jobs in step
"""
