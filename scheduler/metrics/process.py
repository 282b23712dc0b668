"""The daemon's own process, as prometheus_client reads it from the kernel."""

from scheduler.metrics.metric import Metric

PROCESS_METRICS = (
    Metric("process_cpu_seconds_total", "counter", (), "CPU time of the daemon.", watched=True),
    Metric("process_resident_memory_bytes", "gauge", (), "Memory of the daemon that is in RAM."),
    Metric("process_virtual_memory_bytes", "gauge", (), "Address space of the daemon."),
    Metric("process_open_fds", "gauge", (), "Open files and connections of the daemon."),
    Metric("process_max_fds", "gauge", (), "How many it may have."),
    Metric("process_start_time_seconds", "gauge", (), "When the daemon was started; unix seconds."),
)
