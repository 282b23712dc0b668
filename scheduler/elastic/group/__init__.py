"""The process group: formed, broken and formed again in one process, and the store in which it meets. Imports torch."""
