"""The daemon's own process, as prometheus_client reads it from the kernel."""

from scheduler.metrics.metric import Metric

PROCESS_METRICS = (
    Metric("process_cpu_seconds_total", "counter", (), "CPU time of the daemon.", watched=True),
    Metric("process_resident_memory_bytes", "gauge", (), "Resident memory of the daemon."),
    Metric("process_virtual_memory_bytes", "gauge", (), "Address space of the daemon."),
    Metric("process_open_fds", "gauge", (), "Open files and connections of the daemon."),
    Metric("process_max_fds", "gauge", (), "Maximum number of open files and connections."),
    Metric("process_start_time_seconds", "gauge", (), "Start time of the daemon in Unix seconds."),
)
