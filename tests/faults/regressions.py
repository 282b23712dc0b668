"""Seeds that failed once, with what each found."""

REGRESSIONS = {
    57: "A daemon that had stood still took the silence of that time for hung workers, and killed them.",
    443: "A worker that was done before the group existed left the others waiting for it for ever.",
    744: "The same where too few were left for any group.",
    11879: "A daemon that stood still in the middle of a tick took the silence of that time for a hung worker.",
    12370: "A booking's job that was leaving counted as using it, and others took the slot that it did not hold.",
}
