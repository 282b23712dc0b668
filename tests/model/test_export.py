"""Which variables are taken by default, which are secrets, and what is shown of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.export import MASK, in_default_export, is_schedulers, is_secret, masked


@pytest.mark.parametrize("name", ["PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_EXE", "PYTHONPATH", "LD_LIBRARY_PATH"])
def test_what_says_where_programs_are_is_taken_by_default(name: str) -> None:
    assert in_default_export(name)


@pytest.mark.parametrize("name", ["HOME", "path", "MYPATH", "CONDA", "HF_HOME", "PYTHONHOME", ""])
def test_nothing_else_is_taken_by_default(name: str) -> None:
    assert not in_default_export(name)


@pytest.mark.parametrize("name", ["SCHED_TOKEN", "SCHED_HTTP__TOKEN", "sched_url", "SCHED_"])
def test_the_schedulers_own_variables_are_known(name: str) -> None:
    assert is_schedulers(name)
    assert not is_schedulers(f"MY_{name}")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "HF_TOKEN",
            "GITHUB_TOKEN",
            "TOKEN",
            "hf_token",
            "WANDB_API_KEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
        ),
        *("OPENAI_APIKEY", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "SSHPASS", "CLIENT_SECRET", "JWT"),
        *("GOOGLE_APPLICATION_CREDENTIALS", "GPG_PASSPHRASE", "GITHUB_PAT", "NPM_AUTH", "SIGNING.KEY", "API-KEY"),
    ],
)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert is_secret(name, "x")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "PATH",
            "PWD",
            "OLDPWD",
            "TOKENIZERS_PARALLELISM",
            "MONKEY",
            "KEYBOARD",
            "COMPASS",
            "SSH_AUTH_SOCK",
            "AUTHOR",
        ),
        *("PATTERN", "HF_HOME", "OMP_NUM_THREADS", "BASH_FUNC_module%%", "CONDA_PREFIX", "", "_", "é"),
    ],
)
def test_other_names_are_no_secrets(name: str) -> None:
    assert not is_secret(name, "/usr/bin:/bin")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_proxy", "http://ann:pw@proxy:3128"),
        ("HTTPS_PROXY", "ann:pw@proxy:3128"),
        ("ALL_PROXY", "socks5h://token@proxy"),
        ("DATABASE_URL", "postgresql+psycopg://u:p@db/x"),
        ("DATABASE_URL", "postgresql://u:p/w@db/x"),
        ("PIP_INDEX_URL", "https://token@pypi.example/simple"),
        ("OPTIONS", "--store s3://key:word@host/bucket --fast"),
    ],
)
def test_credentials_in_a_url_are_a_secret(name: str, value: str) -> None:
    assert is_secret(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("http_proxy", "http://proxy:3128"),
        ("no_proxy", "localhost,.example.org"),
        ("HOMEPAGE", "https://example.org/@ann/page"),
        ("MAIL", "ann@example.org"),
        ("REPOSITORY", "git@example.org:ann/x.git"),
    ],
)
def test_addresses_without_credentials_are_none(name: str, value: str) -> None:
    assert not is_secret(name, value)


def test_values_of_secrets_are_masked_and_empty_ones_are_not() -> None:
    env = (("HF_HOME", "/data"), ("HF_TOKEN", "hf_x"), ("HF_TOKEN_PATH", ""), ("https_proxy", "http://a:b@c"))
    assert masked(env) == {"HF_HOME": "/data", "HF_TOKEN": MASK, "HF_TOKEN_PATH": "", "https_proxy": MASK}


@given(st.from_regex(r"[A-Z0-9_]{0,12}_(TOKEN|KEY|PASSWORD|SECRET)", fullmatch=True), st.text(min_size=1, max_size=40))
def test_no_secret_s_value_is_ever_shown(name: str, value: str) -> None:
    assert masked([(name, value)]) == {name: MASK}
    assert masked([(name.lower(), value)]) == {name.lower(): MASK}
