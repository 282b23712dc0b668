"""Unmodified Horovod Elastic under the scheduler. Standard library only: Horovod runs in processes of its own.

    driver (fixed worker)                          worker (holds the slots)
    drive ── starts ──► horovodrun                 hold
      │ the published list       │ once a second     ▲  starts and ends
      ▼                          ▼                   │  the process
    a file of names ◄── its discovery script         │
                                 │ a process on NAME │
                                 └─► ssh (ours) ─────┘

A name is a worker's id, which is never used again: what Horovod holds against a host harms nobody. Whatever is no
address of the driver's machine, horovodrun reaches by `ssh`, and takes the one that stands first in its PATH.
"""
