"""The accounts that count the slots of jobs."""

from scheduler import bounds
from scheduler.model.ids import JobId
from scheduler.policy.queues.tree import TOP, Lane, Tree, is_told, queue_of
from tests.policy.worlds import Cluster


def tree(*paths: str, share_users: tuple[str, ...] = (), user_limit: tuple[str, ...] = ()) -> Tree:
    c = Cluster()
    for path in paths:
        c.queue(path, share_users=path in share_users, user_limit=3 if path in user_limit else None)
    return Tree({queue.path: queue for queue in c.queues})


def lane(among: Tree, number: int, **fields: object) -> Lane:
    return among.lane_of(Cluster().waiting(number, **fields).jobs[JobId(number)])


def test_a_job_counts_in_its_queue_and_in_those_around_it() -> None:
    among = tree("lab", "lab/one", "works")
    assert lane(among, 1, queue="lab/one").path == among.accounts("lab/one", "ann") == ("lab", "lab/one")
    assert lane(among, 2, queue="works").path == ("works",)
    assert lane(among, 3, queue="lab").path == ("lab", "lab/."), "beside those inside it"
    assert lane(among, 4).path == ("/.",), "in no queue"
    assert lane(among, 5, queue="lab/gone").path == ("lab", "lab/."), "the one around it is there"
    assert lane(tree("lab", "lab/gone/one"), 6, queue="lab").path == ("lab", "lab/."), "so is that of lab/gone/one"


def test_where_users_share_a_queue_or_have_limits_in_it_each_has_an_account() -> None:
    among = tree("lab", "lab/one", "works", share_users=("lab",), user_limit=("lab", "works"))
    assert lane(among, 1, queue="lab", user="ann").path == among.accounts("lab", "ann") == ("lab", "lab@ann")
    assert lane(among, 2, queue="lab/one", user="ann").limits == (("lab@ann", 0, 3),)
    found = lane(among, 3, queue="lab", user="ann@home")
    assert found.accounts == ("lab", "lab@ann@home"), "users may have an @ in their names"
    assert [(*limit, limit.of_user) for limit in found.limits] == [("lab@ann@home", 0, 3, True)]
    assert lane(among, 4, queue="works", user="ann").accounts == ("works", "works@ann")
    assert lane(among, 5, user="ann").accounts == ("/.",)
    assert (among.weight("lab@ann"), among.weight("lab/."), among.queue("lab@ann")) == (1.0, 1.0, None)


def test_limits_bound_what_jobs_in_a_queue_and_inside_it_hold() -> None:
    c = Cluster().queue("lab", limit=4).queue("lab/one").queue("works", user_limit=3).queue("other")
    among = Tree({queue.path: queue for queue in c.queues})
    paths = ("lab", "lab/one", "works", "other", "")
    limits = [lane(among, number, queue=path, user="ann").limits for number, path in enumerate(paths, 1)]
    assert limits == [(("lab", 0, 4),), (("lab", 0, 4),), (("works@ann", 0, 3),), (), ()]


def test_jobs_with_the_same_accounts_are_in_one_lane() -> None:
    among = tree("lab", "works", user_limit=("works",))
    assert lane(among, 1, queue="lab", user="ann") is lane(among, 2, queue="lab", user="bob")
    ann, bob = lane(among, 3, queue="works", user="ann"), lane(among, 4, queue="works", user="bob")
    assert ann is not bob
    assert ann.own == bob.own == "works"
    assert ann.shared_levels(bob) == 1


def test_jobs_of_open_bookings_are_above_all_queues_and_all_are_where_there_are_none() -> None:
    among = tree("lab")
    assert lane(among, 1, queue="lab", priority=int(bounds.PRIORITY.high)) is not TOP
    assert lane(among, 2, queue="lab", priority=int(bounds.PRIORITY.high) + 1) is TOP
    assert lane(tree(), 3, queue="lab") is TOP
    assert among
    assert not tree()
    assert tree().accounts("lab", "ann") == ()
    assert (TOP.own, TOP.inside(frozenset({"lab"}))) == ("", False)


def test_lanes_share_the_levels_that_both_begin_with() -> None:
    one, two = Lane(("lab", "lab/one"), ()), Lane(("lab", "lab/two"), ())
    assert (one.shared_levels(two), one.shared_levels(one), one.shared_levels(TOP)) == (1, 2, 0)
    assert one.shared_levels(Lane(("works", "works/one"), ())) == 0


def test_an_account_tells_its_queue_and_its_user() -> None:
    accounts = ("lab", "lab/one", "lab@ann", "lab@ann@home", "/.")
    assert [queue_of(account) for account in accounts] == [
        ("lab", None),
        ("lab/one", None),
        ("lab", "ann"),
        ("lab", "ann@home"),
        ("", None),
    ]
    assert all(map(is_told, accounts))
    assert queue_of("lab/.") == ("lab", None)
    assert not is_told("lab/."), "only some of a queue"
