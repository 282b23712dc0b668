"""What the page of figures says of the workloads that others published, run in virtual time."""

from benchmarks.virtual import LEAVE_SECONDS
from docs.generate.sections import Chart, Section

_POLICIES = (
    "ours, batch sizes tuned",
    "shortest, oracle",
    "ours, fixed batch sizes",
    "afs, oracle",
    "edl",
    "tiresias",
    "elastic-fifo",
    "fifo",
    "easy, durations declared",
    "conservative, durations declared",
)

SIMULATED: tuple[Section, ...] = (
    Section(
        "adaptdl",
        "Workloads of Pollux (AdaptDL)",
        "Mean completion time of workloads 1 and 2 of Pollux: 160 training jobs with measured speeds on 16 nodes of 4 "
        "GPUs. Published policies decide every 60 s, as they did there; the policy of this project (`ours`) decides at "
        "once. An oracle is told in advance how long each job takes and how fast it is with any number of workers; "
        "ours knows only what workers report: their speed and their progress. A change of the membership costs a job "
        "30 s. Figures are means over the two workloads, which the notes give one by one. The figures of others are "
        "those of the simulator of AdaptDL: of Pollux, Tiresias and Optimus as published, of the rest as measured with "
        "it. The benchmark needs `--traces DIR` with workloads that are not part of this project, and says where they "
        "come from.",
        (
            Chart(
                "Mean completion time by policy",
                (
                    *((each, f"{each}: mean completion time") for each in _POLICIES[:1]),
                    ("Pollux (published)", "published:ours, batch sizes tuned: mean completion time"),
                    *((each, f"{each}: mean completion time") for each in _POLICIES[1:]),
                ),
                ours=("ours, batch sizes tuned", "ours, fixed batch sizes"),
            ),
        ),
    ),
    Section(
        "kueue",
        "Scheduler benchmark of Kueue",
        "The baseline of the scheduler benchmark of Kueue: 15,000 workloads of 0.2 to 1 s on 5 cohorts of 120 slots, "
        "submitted within a minute. Kueue measured a real server. In virtual time decisions and starts take no time, "
        "so the processor time that they took is given beside it. The workloads run three times. In one pool for "
        "each cohort nobody is stopped, or more important workloads stop others, which keep what they have done. In "
        "the 30 queues of the benchmark each has 20 slots of its own, borrows up to 100 more, and takes back what it "
        "lent. All queues ask for the same at the same moments, so that they change nothing here but what decisions "
        "cost.",
        (
            Chart(
                "Time until all is done",
                (
                    ("this scheduler", "queues take back what they lent: all done"),
                    ("Kueue (published)", "published:queues take back what they lent: all done"),
                    ("bound: all work ÷ all slots", "bound: from any moment on, all work that comes ÷ all slots"),
                ),
                ours=("this scheduler",),
            ),
        ),
    ),
    Section(
        "paddle_edl",
        "Experiments of Paddle EDL",
        "133 nodes: 20 jobs of up to 60 trainers, and training beside nginx, whose pods are no jobs but those of "
        f"others: a worker that leaves for one of them holds its slot for {LEAVE_SECONDS:g} s more, as measured on a "
        "real cluster. Fixed sizes are those of the policy `fifo`.",
        (
            Chart(
                "Mean time pending of 20 jobs",
                (
                    ("this scheduler", "20 jobs: mean time pending"),
                    ("Paddle EDL (published)", "published:20 jobs: mean time pending"),
                    ("fixed sizes", "20 jobs, fixed sizes: mean time pending"),
                ),
                ours=("this scheduler",),
            ),
            Chart(
                "Used share of the cluster",
                (
                    ("20 jobs: this scheduler", "20 jobs: use"),
                    ("20 jobs: Paddle EDL (published)", "published:20 jobs: use"),
                    ("nginx: this scheduler", "beside nginx: use"),
                    ("nginx: Paddle EDL (published)", "published:beside nginx: use"),
                ),
                better="longer is better",
                ours=("20 jobs: this scheduler", "nginx: this scheduler"),
            ),
        ),
    ),
    Section(
        "elasticdl",
        "Experiments of ElasticDL",
        "Two jobs that do not fit beside each other, and training beside a service, whose pods are no jobs but those "
        f"of others: a worker that leaves for one of them holds its slot for {LEAVE_SECONDS:g} s more, as measured on "
        "a real cluster. Gang scheduling is that of the policy `fifo`. Speed is linear.",
        (
            Chart(
                "Two jobs of 175 workers on 320 CPUs: time until both are done",
                (
                    ("this scheduler", "2 × 175 workers on 320 CPUs: all done"),
                    ("ElasticDL (published)", "published:2 × 175 workers on 320 CPUs: all done"),
                    ("gang", "2 × 175 workers on 320 CPUs, gang: all done"),
                ),
                ours=("this scheduler",),
            ),
        ),
    ),
    Section(
        "partitions",
        "Partitions",
        "What a cluster loses that is divided: elastic jobs with a heavy tail of work on 128 nodes of 8 GPUs, at nine "
        "tenths of what the cluster can do, and on the same nodes in parts that know nothing of each other. A job is "
        "sent to one part when it comes, to each in turn, or to the one with the least work left. This workload is "
        "made up.",
        (
            Chart(
                "Mean completion time",
                (
                    ("one cluster", "one cluster: mean completion time"),
                    ("4 partitions", "4 partitions, least work left: mean completion time"),
                    ("16 partitions", "16 partitions, least work left: mean completion time"),
                    ("4 partitions, in turn", "4 partitions, in turn: mean completion time"),
                    ("16 partitions, in turn", "16 partitions, in turn: mean completion time"),
                ),
                ours=("one cluster",),
            ),
        ),
    ),
)
