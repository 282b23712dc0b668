"""An elastic GPU scheduler: running jobs lose and gain workers, so that important work starts at once.

Only the version lives here; see the packages below for the parts.
"""

__version__ = "0.1.0"
