"""Seeds that failed once, with what each found."""

REGRESSIONS = {
    57: "A daemon that had stood still took the silence of that time for hung workers, and killed them.",
    443: "A worker that was done before the group existed left the others waiting for it for ever.",
    744: "The same where too few were left for any group.",
    11879: "A daemon that stood still in the middle of a tick took the silence of that time for a hung worker.",
    12370: "A booking's job that was leaving counted as using it, and others took the slot that it did not hold.",
    12973: "A job of a booking that had lost workers was topped up to its minimum, and grown as if it had not been.",
    12981: "A reservation on a node that lost a slot was said to be stolen.",
    20723: "The end of a quarantine, long after the last job had ended, was said to be unrest.",
    30237: "A published policy let a job take whose victim had aged more, and the plan was refused for that.",
    30313: "A job of a policy of fixed sizes was said to wait for nothing, while a node that it needs was drained.",
    30414: "A published policy, which knows no bookings, was kept from taking from a job of one.",
    31032: "The time in which the only daemon stood still counted as an inversion that it let last.",
    5139: "What workers said was lost with a tick that failed, and one that had said it was ready was killed as hung.",
    100906: "A job of a booking for which there was no room kept its share from being held, and others took it.",
    103959: "A reservation was said to be stolen, when a node had grown and a larger job ahead was to come first.",
    106049: "A job of a booking that found no room to grow kept its share from being held, and others took it.",
    106108: "A job of a booking on shared slots was to grow onto slots of its own.",
}
