"""Variables of the environment: each sets its setting; one that only looks like it is refused with the right form."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.config import load_settings
from scheduler.config.load import variable
from scheduler.errors import ConfigError

SetVariable = Callable[[str, str], None]
SECRET = "0123456789abcdef"


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> SetVariable:
    return monkeypatch.setenv


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("SCHED_POLICY_AGING_PER_HOUR", "SCHED_POLICY__AGING_PER_HOUR"),
        ("SCHED_POLICY__AGING__PER_HOUR", "SCHED_POLICY__AGING_PER_HOUR"),
        ("SCHED_POLICY___NAME", "SCHED_POLICY__NAME"),
        ("SCHED_HTTP_TOKEN", "SCHED_HTTP__TOKEN"),
        ("SCHED_http_workers_url", "SCHED_HTTP__WORKERS_URL"),
        ("SCHED_STATE__DIR", "SCHED_STATE_DIR"),
        ("SCHED__CLUSTER", "SCHED_CLUSTER"),
        ("SCHED_WEBHOOKS_CHAT_SECRET", "SCHED_WEBHOOKS__CHAT__SECRET"),
        ("SCHED_WEBHOOKS__MY_CHAT_BACKOFF_MAX_SECONDS", "SCHED_WEBHOOKS__MY_CHAT__BACKOFF_MAX_SECONDS"),
    ],
)
def test_a_variable_with_the_wrong_underscores_is_refused_with_the_right_ones(
    put: SetVariable, name: str, right: str
) -> None:
    put(name, SECRET)
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert str(refused.value) == f"variable {name}: not a setting: use {right}"


def test_variables_in_the_right_form_set_what_they_name(put: SetVariable) -> None:
    put(variable(("policy", "aging_per_hour")), "2.5")
    put("SCHED_policy__share", "false")
    put(variable(("webhooks", "my_chat", "url")), "http://chat")
    put(variable(("webhooks", "my_chat", "secret")), SECRET)
    settings = load_settings()
    assert (settings.policy.aging_per_hour, settings.policy.share) == (2.5, False)
    assert settings.webhooks["my_chat"].url == "http://chat"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCHED_URL", "http://127.0.0.1:8470"),
        ("SCHED_TOKEN", SECRET),
        ("SCHED_JOB_NAME", "train"),
        ("SCHED_PORT", "tcp://10.0.0.1:8470"),
        ("SCHED_HTTP_PORT", "tcp://10.0.0.1:8470"),
        ("SCHED_HTTP_PORT_8470_TCP_ADDR", "10.0.0.1"),
        ("SCHED_HTTP_SERVICE_HOST", "10.0.0.1"),
    ],
)
def test_variables_of_clients_workers_and_kubernetes_are_no_settings(put: SetVariable, name: str, value: str) -> None:
    before = load_settings()
    put(name, value)
    assert load_settings() == before


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("SCHED_POLICY", "SCHED_POLICY__NAME"),
        ("SCHED_HTTP", "SCHED_HTTP__HOST"),
        ("SCHED_KUBERNETES", "SCHED_KUBERNETES__NAMESPACE"),
        ("SCHED_WEBHOOKS", "SCHED_WEBHOOKS__NAME__URL"),
        ("SCHED_WEBHOOKS__CHAT", "SCHED_WEBHOOKS__CHAT__URL"),
    ],
)
@pytest.mark.parametrize("value", ["x", "", '{"port": 1}'])
def test_a_group_is_not_set_as_a_whole(put: SetVariable, name: str, right: str, value: str) -> None:
    put(right, "x")
    put(name, value)
    with pytest.raises(ConfigError) as refused:
        load_settings(overrides={"http": {"port": 1}})
    assert str(refused.value) == f"variable {name}: a group of settings is not set as a whole: use such as {right}"


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("SCHED_HTTP__PORT__X", "SCHED_HTTP__PORT"),
        ("SCHED_STATE_DIR__X__Y", "SCHED_STATE_DIR"),
        ("SCHED_WEBHOOKS__CHAT__URL__X", "SCHED_WEBHOOKS__CHAT__URL"),
    ],
)
def test_nothing_stands_within_a_setting(put: SetVariable, name: str, right: str) -> None:
    put(name, "1")
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert str(refused.value) == f"variable {name}: not a setting: use {right}"


@pytest.mark.parametrize("names", [("SCHED_HTTP__NO", "SCHED_HTTP__NO__X"), ("SCHED_HTTP__NO__X", "SCHED_HTTP__NO")])
def test_a_name_that_is_no_setting_is_refused(put: SetVariable, names: tuple[str, ...]) -> None:
    for name in names:
        put(name, "1")
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert str(refused.value) == "setting http.no: unknown setting"


def test_a_file_that_sets_a_group_as_a_whole_is_refused_also_where_options_set_a_part(tmp_path: Path) -> None:
    (tmp_path / "sched.toml").write_text('http = "x"\n')
    with pytest.raises(ConfigError) as refused:
        load_settings(tmp_path / "sched.toml", {"http": {"port": 1}})
    assert str(refused.value) == "setting http: must be a mapping of fields"


def test_gpus_of_kubernetes_are_oversold_only_where_it_is_said_who_tells_them_apart() -> None:
    with pytest.raises(ConfigError) as refused:
        load_settings(overrides={"kubernetes": {"oversell": 1.5}})
    assert str(refused.value) == (
        "setting kubernetes: oversell above 1 needs gpu_exporter, which tells which nvidia.com/gpu a pod has: "
        "set it, or let oversell be 1"
    )
    exporter = {"gpu_exporter": "gpu-operator/app=nvidia-dcgm-exporter"}
    for right in ({"oversell": 1.5, **exporter}, {"oversell": 1.5, "resource": "cpu"}, {"oversell": 1}):
        load_settings(overrides={"kubernetes": right})


@pytest.mark.parametrize("wrong", ["nvidia-dcgm-exporter", "gpu-operator/app", "/app=x", "Gpu/app=x", "gpu/app=x,"])
def test_an_exporter_that_is_not_named_by_namespace_and_labels_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"^setting kubernetes\.gpu_exporter: must match the pattern "):
        load_settings(overrides={"kubernetes": {"gpu_exporter": wrong}})


@pytest.mark.parametrize("factor", ["0.5", "inf", "nan", "65", "many"])
def test_a_factor_of_kubernetes_that_cannot_be_is_refused(factor: str) -> None:
    with pytest.raises(ConfigError, match=r"^setting kubernetes\.oversell: "):
        load_settings(overrides={"kubernetes": {"oversell": factor}})


@pytest.mark.parametrize(("first", "count"), [(60000, 8000), (65535, 2)])
def test_ports_that_do_not_exist_are_refused(put: SetVariable, first: int, count: int) -> None:
    put("SCHED_ENGINE__MASTER_PORT_FIRST", str(first))
    put("SCHED_ENGINE__MASTER_PORT_COUNT", str(count))
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert str(refused.value) == (
        f"setting engine: master_port_first {first} and master_port_count {count} reach port {first + count - 1}, "
        "above 65535: lower one of them"
    )
    put("SCHED_ENGINE__MASTER_PORT_COUNT", "1")
    assert load_settings().engine.master_port_first == first


@pytest.mark.parametrize(
    ("name", "right"),
    [
        ("SCHED_POLICIES__NAME", "use SCHED_POLICY__NAME"),
        ("SCHED_ENGNE__LEASE_SECONDS", "use SCHED_ENGINE__LEASE_SECONDS"),
        ("SCHED_WEBHOOK__CHAT__URL", "use SCHED_WEBHOOKS__CHAT__URL"),
        ("SCHED_BOATS__LEASE_SECONDS", "use a group of policy, engine, local, system, "),
    ],
)
def test_a_variable_of_a_group_that_there_is_not_is_refused(put: SetVariable, name: str, right: str) -> None:
    put(name, "1")
    with pytest.raises(ConfigError) as refused:
        load_settings()
    assert str(refused.value).startswith(f"variable {name}: not a setting: {right}")


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[policy]\nname = "fifo"\n', encoding="utf-8-sig")
    assert load_settings(file).policy.name == "fifo"


def test_what_is_watched_by_default_can_be_left_unwatched(put: SetVariable, tmp_path: Path) -> None:
    watched = load_settings()
    assert (watched.policy.oversell_memory_max, watched.local.foreign_memory_min) == (0.9, 0.05)
    file = tmp_path / "settings.toml"
    file.write_text('[policy]\noversell_memory_max = "none"\n')
    put("SCHED_LOCAL__FOREIGN_MEMORY_MIN", "none")
    settings = load_settings(file)
    assert (settings.policy.oversell_memory_max, settings.local.foreign_memory_min) == (None, None)
    for wrong in ("2", "nothing"):
        put("SCHED_LOCAL__FOREIGN_MEMORY_MIN", wrong)
        with pytest.raises(ConfigError, match=r"setting local\.foreign_memory_min: "):
            load_settings()
