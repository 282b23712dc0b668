"""Seeds that failed once, with what each found."""

REGRESSIONS: dict[int, str] = {}
