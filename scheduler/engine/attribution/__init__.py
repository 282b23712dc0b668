"""Which job, node, pod of others or booking makes ticks fail: it is held, so that all others go on."""
