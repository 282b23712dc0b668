"""What the page of figures says of each benchmark, in its order, and what its chart compares."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Chart:
    """Horizontal bars of figures of one unit. `bars` are (label, the figure's name); a name that begins with
    `published:` stands for what others published beside that figure.
    """

    title: str
    bars: tuple[tuple[str, str], ...]
    #: What longer bars mean: "longer is better" or "shorter is better".
    better: str = "shorter is better"
    #: Bars of this project, by label; the others are drawn in grey. Empty: all are.
    ours: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Section:
    """A benchmark: its name for `python -m benchmarks`, its title, and what was measured, in a few sentences."""

    name: str
    title: str
    text: str
    charts: tuple[Chart, ...] = ()


MEASURED: tuple[Section, ...] = (
    Section(
        "preempt",
        "Start of an important job",
        "Time from the submission of a high-priority job to the start of its workers, while less important jobs hold "
        "all slots. The victims take steps of 100 ms and leave at the end of one. Slurm cannot shrink a job, so it "
        "cancels it.",
        (
            Chart(
                "Submission of an important job to the start of its workers",
                (
                    ("victims: plain processes", "victims are plain processes, median"),
                    ("victims: elastic PyTorch", "victims are elastic PyTorch trainings, median"),
                    ("Slurm 22.05.8", "Slurm 22.05.8, median"),
                ),
                ours=("victims: plain processes", "victims: elastic PyTorch"),
            ),
        ),
    ),
    Section(
        "http_attack",
        "discover_hosts under attack",
        "How long an answer of `discover_hosts` takes while others hold 10,000 connections that say nothing, and "
        "while 1,000 clients more send a byte a second.",
    ),
    Section(
        "frameworks",
        "Resizes under each framework",
        "A real training goes from 2 to 3 to 1 to 2 workers. The pause is the time without a training step. "
        "`scheduler.elastic` resizes from memory. `torchrun` and `torchrun, forked` are torchrun with the rendezvous "
        "of this project, `torchrun c10d` is torchrun with its own. `Horovod` is Horovod Elastic under this scheduler; "
        "`cold` starts its processes without importing in advance.",
        (
            Chart(
                "Pause of a training at a resize",
                (
                    ("scheduler.elastic", "scheduler.elastic: pause, median"),
                    ("torchrun, forked", "torchrun, forked: pause, median"),
                    ("torchrun", "torchrun: pause, median"),
                    ("torchrun c10d", "torchrun c10d: pause, median"),
                    ("Horovod", "Horovod: pause, median"),
                    ("Horovod, cold", "Horovod, cold: pause, median"),
                ),
                ours=("scheduler.elastic",),
            ),
        ),
    ),
    Section(
        "ddp",
        "Resizes under DistributedDataParallel",
        "Each variant of a training under `DistributedDataParallel` grows from 2 to 3 workers and shrinks back, "
        "beside two busy loops; after most growths a worker is killed before its tenth step. A change takes from "
        "the list that the scheduler published, or from the signal, to five further steps of all members.",
    ),
    Section(
        "resize_pause",
        "Pause of a resize",
        "A real training goes from 2 to 3 to 1 to 2 workers under `scheduler.elastic`. The pause runs from the end of "
        "the last step before the resize to the end of the first step after it.",
        (Chart("Pause by resize", (("1 → 2", "1 → 2"), ("2 → 3", "2 → 3"), ("3 → 1", "3 → 1"))),),
    ),
    Section(
        "throughput",
        "Throughput of short jobs",
        "1,000 jobs that run `true` through 64 slots, from the first submission to the last end.",
        (
            Chart(
                "Short jobs per second",
                (
                    ("this scheduler", "1,000 × true through 64 slots"),
                    ("Slurm 22.05.8", "Slurm 22.05.8, as a job array"),
                ),
                better="longer is better",
                ours=("this scheduler",),
            ),
        ),
    ),
    Section(
        "discover_hosts",
        "discover_hosts",
        "1,000 running jobs, with the engine ticking and the daemon on one core. The load comes from wrk on the other "
        "cores, over keep-alive connections, for random jobs. nginx serves the same bytes from one core.",
        (
            Chart(
                "Requests per second on one core",
                (
                    ("discover_hosts", "discover_hosts, daemon on one core"),
                    ("nginx", "nginx, the same bytes on one core"),
                ),
                better="longer is better",
                ours=("discover_hosts",),
            ),
        ),
    ),
    Section(
        "decision",
        "Decisions of the planner",
        "One decision of the planner alone, on 100 to 12,500 nodes of 8 slots. All slots are used. Per node there are "
        "0.8 running elastic jobs, of 10 workers on average, and 8 waiting jobs of many shapes, sizes and priorities. "
        "The last rows vary the number of priorities and of worker shapes on 5,000 nodes. Figures are processor time "
        "of one core, without the making of the worlds.",
        (
            Chart(
                "A full pass over all jobs",
                tuple((f"{nodes} nodes", f"{nodes} nodes: full pass") for nodes in ("100", "1,000", "5,000", "12,500")),
            ),
            Chart(
                "A pass after one arrival, 99th percentile",
                tuple(
                    (f"{nodes} nodes", f"{nodes} nodes: pass after one arrival, p99")
                    for nodes in ("100", "1,000", "5,000", "12,500")
                ),
            ),
        ),
    ),
    Section(
        "queues",
        "Decisions among queues",
        "The cluster of the decisions above with nodes of two GPU types, once without queues, and once with 1,000 "
        "queues in three levels and 10,000 users; some queues have guarantees, limits, weights or shares of users. "
        "Both are measured in turns. `--quick` measures a small one.",
        (),
    ),
    Section(
        "tick",
        "A whole tick",
        "One tick over 1,000 nodes of 8 slots with 2,000 running and 10,000 waiting jobs, on SQLite: observe, absorb "
        "requests, plan, check, commit durably, publish, apply. Engine and store are the real ones, over the simulated "
        "cluster.",
        (
            Chart(
                "Duration of a tick",
                (
                    ("idle", "idle tick"),
                    ("one arrival", "tick that takes one arrival"),
                    ("one arrival that preempts", "tick that takes one arrival of top priority (preempts)"),
                    ("one end", "tick that takes the end of one job"),
                ),
            ),
        ),
    ),
    Section(
        "scale",
        "The whole engine at scale",
        "What becomes of ticks as the cluster grows: all jobs at once, five minutes of steady traffic, a wave of "
        "important jobs for a tenth of the cluster, the loss of a twentieth of the nodes, a restart and a failover. "
        "Engine and store are the real ones, over the simulated cluster, with 10 jobs a node. At 12,500 nodes 200 jobs "
        "come and 200 end in a second, and workers send 2,000 reports; on a smaller cluster in proportion. `--nodes` "
        "takes other sizes, `--postgres` the other database.",
    ),
    Section(
        "startup",
        "Start of the daemon",
        "Start with 100,000 stored jobs until `/readyz` answers with success, and the memory after the first ticks: "
        "once with 10,000 jobs waiting and the others ended, once with all of them waiting.",
        (
            Chart(
                "Start until ready",
                (
                    ("10,000 waiting", "daemon start, 100,000 stored jobs, 10,000 waiting"),
                    ("100,000 waiting", "daemon start, 100,000 stored jobs, 100,000 waiting"),
                ),
            ),
        ),
    ),
    Section(
        "submits",
        "Submissions",
        "Jobs submitted per second over HTTP. Each answer follows a durable commit, and the engine takes the jobs "
        "meanwhile.",
    ),
    Section(
        "report",
        "Reports",
        "`sched report` over a long history: 100,000 jobs, one million workers and three million events in SQLite.",
    ),
    Section(
        "data_queue",
        "Data in shards",
        "One million shards through 200 workers over HTTP, each answer after a durable commit, while workers and the "
        "daemon are killed.",
    ),
    Section(
        "page",
        "The live page",
        "The page over 1,250 nodes of 8 slots with 800 jobs, in Chromium on the same machine: first paint, and updates "
        "as jobs resize.",
    ),
    Section(
        "scrape",
        "A scrape of the metrics",
        "A scrape of `/metrics` while 10,000 jobs run and wait. Between two scrapes a job ends and a tick passes.",
    ),
    Section(
        "rates",
        "Rules for the learning rate",
        "Final loss of a real training whose workers go from 1 to 4 to 2, by each rule for the learning rate. All "
        "trainings end at the same number of steps of the base size. So the loss shows how well a rule keeps the "
        "training, and the number of steps what the larger batches saved.",
        (
            Chart(
                "Training loss at the end",
                tuple(
                    (label, f"training loss, {label}")
                    for label in ("one worker throughout", "constant", "linear", "sqrt", "adascale")
                ),
            ),
            Chart(
                "Steps until the end",
                tuple(
                    (label, f"steps, {label}")
                    for label in ("one worker throughout", "constant", "linear", "sqrt", "adascale")
                ),
            ),
        ),
    ),
    Section(
        "wide_deep",
        "Convergence",
        "Experiment 3 of ElasticDL. A wide and deep model learns click-through records, once with 4 workers and twice "
        "with 2 to 6 that come and go at random: real workers of one daemon, with the same records and the same first "
        "weights for each seed. The records are generated from a logistic model over hashed crosses of categories and "
        "dense features, so the best possible AUC is known. With a constant batch (`ConstantBatch`) only the rounding "
        "of sums differs. With a batch that grows with the workers (`ScaledBatch`, √k for Adam) the steps differ, too. "
        "Intervals and p are those of a paired t-test over the seeds. `--seeds`, `--samples` and `--picture FILE` make "
        "the experiment larger or draw it elsewhere.\n\n"
        "![AUC over the samples seen, with 4 workers and with 2 to 6: the curves coincide, a little below the best "
        "possible; below, the number of workers over time](wide-deep.svg)",
    ),
    Section(
        "failover",
        "Failover",
        "The leader is killed with SIGKILL 20 times. Measured is the time until the standby has started a job that was "
        "submitted meanwhile. Two replicas on one machine share a PostgreSQL database and the local workers. All "
        "settings are the defaults.",
    ),
    Section(
        "kubernetes",
        "A large Kubernetes cluster",
        "1,000 nodes and 10,000 pods. etcd and the API server are real; the benchmark acts for the kubelets and for "
        "the scheduler of the cluster. 8,000 workers of 1,350 jobs hold all GPUs and 100 jobs wait. 2,000 pods of "
        "others hold CPUs.",
    ),
    Section(
        "cluster_experiments",
        "ElasticDL's experiments on real parts",
        "The three experiments of ElasticDL on a real Kubernetes cluster of two nodes, small and short enough for one "
        "machine. Workers are pods that train in PyTorch, decisions are those of the settings as shipped, and use is "
        "what pods request of what the nodes offer.\n\n"
        "1. Two jobs that each want more than half of the cluster: 6 of 11 slots instead of 175 of 320 CPUs, about "
        "100 s of work instead of 650 s, and the second job comes at 46 s instead of 300 s. A gang is a job whose "
        "least size is its largest. Published times are given as they are, and brought to this scale; pods start and "
        "import PyTorch in the time measured, which does not shrink with the work.\n"
        "2. A Deployment of nginx that knows nothing of the scheduler, under the load of wrk. A script stands for the "
        "autoscaler: it counts requests and scales from 1 to 7 pods and back, instead of from 1 to 14 of 21. Elastic "
        "training has the rest. Rigid training beside it has the 4 slots that the service never needs.\n"
        "3. A wide and deep model trained by a fixed number of workers, and by 2 to 6 whose bounds are changed at "
        "random: by allreduce, and asynchronously over two parameter servers, as ElasticDL did. Both ways see the "
        "same records and begin with the same weights; that asynchronous training is at another AUC than allreduce "
        "is no matter of elasticity.\n\n"
        "What a step computes is small, so a worker waits for each sample as long as a larger model would compute: "
        "more workers are faster because each has fewer samples. The benchmark needs `KUBECONFIG`, the kubeconfig of a "
        "cluster whose nodes run on this machine, since pods mount its programs. `--experiments 2` measures one of "
        "them.",
        (
            Chart(
                "Two jobs of 6 workers on 11 slots: time until both are done",
                (
                    ("elastic", "2 × 6 workers on 11 slots: all done"),
                    ("gang", "2 × 6 workers on 11 slots, gang: all done"),
                ),
                ours=("elastic",),
            ),
            Chart(
                "Training beside nginx: used share of the cluster",
                (
                    ("elastic", "training beside nginx on 11 slots: use"),
                    ("rigid", "training beside nginx on 11 slots, rigid: use"),
                ),
                better="longer is better",
                ours=("elastic",),
            ),
        ),
    ),
)
