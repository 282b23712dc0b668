"""What `examples/kubernetes/try.sh` says where there is nothing to try it on."""

import os
import subprocess
from pathlib import Path

from tests.e2e.installed.installation import ROOT

TRY = ROOT / "examples" / "kubernetes" / "try.sh"


def test_it_fails_in_one_line_where_there_is_no_cluster(tmp_path: Path) -> None:
    nowhere = {**os.environ, "KUBECONFIG": str(tmp_path / "none"), "HOME": str(tmp_path)}
    done = subprocess.run([TRY], capture_output=True, text=True, env=nowhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("try.sh: ")


def test_its_help_names_every_variable_and_every_command_that_the_images_need(tmp_path: Path) -> None:
    text = TRY.read_text()
    printed = subprocess.run([TRY, "--help"], capture_output=True, text=True, check=True).stdout
    variables = [line.partition("=")[0] for line in text.splitlines() if line.partition("=")[2].startswith("${")]
    assert variables
    assert all(f"  {name} " in printed for name in variables)
    for dockerfile in ("manifests/Dockerfile", "examples/kubernetes/Dockerfile"):
        (command,) = (
            line[2:]
            for line in (ROOT / dockerfile).read_text().splitlines()
            if line.startswith("#") and "docker build" in line
        )
        assert command.strip() in printed
