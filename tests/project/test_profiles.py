"""What Snakemake makes of the profiles."""

from pathlib import Path

import pytest
from snakemake.profiles import ProfileConfigFileParser

PROFILES = Path(__file__).parents[2] / "profiles"


def profile(name):
    with (PROFILES / name / "config.yaml").open() as file:
        return dict(ProfileConfigFileParser().parse(file))


@pytest.fixture
def _unset(monkeypatch):
    for name in ("SBATCH_PARTITION", "SBATCH_ACCOUNT"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("_unset")
def test_partition_and_account_are_the_users(monkeypatch):
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    monkeypatch.setenv("SBATCH_ACCOUNT", "physics")
    wanted = {"slurm_partition=short", "slurm_account=physics"}
    assert set(profile("slurm")["default-resources"]) == wanted


@pytest.mark.usefixtures("_unset")
def test_one_of_them_may_be_left_out(monkeypatch):
    monkeypatch.setenv("SBATCH_PARTITION", "short")
    assert profile("slurm")["default-resources"] == ["slurm_partition=short"]


@pytest.mark.usefixtures("_unset")
def test_without_them_slurm_decides():
    assert not profile("slurm").get("default-resources")


@pytest.mark.parametrize("name", ["default", "slurm"])
def test_what_a_killed_run_left_is_kept_and_locks_nothing(name):
    settings = profile(name)
    assert settings["ignore-incomplete"] == "True"
    assert settings["nolock"] == "True"


def test_a_job_has_one_core_and_is_tried_again():
    settings = profile("slurm")
    assert settings["cores"] == "1"
    assert int(settings["retries"]) >= 1


def test_the_wait_before_a_first_look_suits_slurms_default_memory():
    # SLURM forgets a job after MinJobAge, 300 s, which must be three times as long.
    assert 3 * int(profile("slurm")["slurm-init-seconds-before-status-checks"]) <= 300
