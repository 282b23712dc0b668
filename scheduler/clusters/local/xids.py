"""Critical errors of GPUs by the number that NVIDIA's driver gives them: what those mean that say the GPU is unfit.

After NVIDIA's catalog of Xid errors. Those that a program causes (13, 31, 43, 45, 68, 109) are not among them, nor 63:
a row of memory that is remapped at the next reset, and until then does no harm.
"""

_MEANINGS = {
    46: "the GPU stopped processing",
    48: "uncorrectable ECC error",
    61: "internal micro-controller breakpoint",
    62: "internal micro-controller halt",
    64: "a row or page of its memory could not be marked for retirement",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    110: "security fault",
    119: "the GPU system processor does not answer",
    120: "error of the GPU system processor",
    140: "unrecovered ECC error",
}


def meaning(number: int) -> str:
    """The error for people."""
    known = _MEANINGS.get(number)
    return f"Xid {number}" + (f": {known}" if known is not None else "")
