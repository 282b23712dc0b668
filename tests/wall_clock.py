"""A wall clock that a test sets, for processes that it starts: `AHEAD` is loaded before libc."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

AHEAD = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WALL_CLOCK_AHEAD");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *seconds = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (seconds != MAP_FAILED) ahead = seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (clock == CLOCK_REALTIME && ahead) now->tv_sec += *ahead;
    return result;
}

time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}
"""


class WallClock:
    """Processes that are started after this have a wall clock that `jump` sets, while they run too."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.ahead_seconds = 0
        self._file = directory / "ahead"
        self._write()
        (directory / "ahead.c").write_text(AHEAD)
        library = directory / "ahead.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, directory / "ahead.c", "-ldl"], check=True)
        patch.setenv("LD_PRELOAD", str(library))
        patch.setenv("WALL_CLOCK_AHEAD", str(self._file))

    def jump(self, seconds: int) -> None:
        """Somebody sets it."""
        self.ahead_seconds += seconds
        self._write()

    def _write(self) -> None:
        with open(self._file, "r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("q", self.ahead_seconds))
