"""A real SLURM on this machine, from Debian's packages, in one temporary folder.

Nothing is installed and nothing outside of the folder is written, so that no rights are
needed: packages are unpacked there, and munge has a key and a socket of its own there.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGES = ("munge", "slurm-client", "slurm-wlm-basic-plugins", "slurmctld", "slurmd")
NODES = ("n1", "n2")
# A partition of its own for jobs that are to be killed, with their nodes.
UNLUCKY = ("u1", "u2", "u3")
READY = 120  # seconds in which SLURM must be ready; it takes a few
# Where the packages, or a site, would have theirs.
PRESENT = ("/etc/slurm", "/etc/slurm-llnl", "/etc/munge", "/run/munge", "/run/slurm")
PROGRAMS = ("munged", "slurmctld", "slurmd", "slurmdbd", "slurmstepd")

# One core a node, so that jobs at once are busy nodes. Jobs are kept in
# squeue to the end, and anything they print before a task starts is put into its
# environment (TaskProlog), which is how a test gives a node another Python.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
CryptoType=crypto/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
PluginDir={plugins}
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={folder}/prolog
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
ReturnToService=1
MinJobAge=7200
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
{nodes}
PartitionName=main Nodes={main} Default=YES MaxTime=INFINITE State=UP
PartitionName=unlucky Nodes={unlucky} MaxTime=INFINITE State=UP
"""
NODE = (
    "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1"
    " RealMemory=4000 State=UNKNOWN"
)
# Snakemake's executor hides the variables of SLURM from the srun that it starts on a
# node, which then looks for a configuration in /etc.
SRUN = """\
#!/bin/sh
SLURM_CONF={folder}/slurm.conf exec {folder}/root/usr/bin/srun "$@"
"""
PROLOG = """\
#!/bin/sh
cat "{folder}/environment/$SLURMD_NODENAME" 2>/dev/null || true
"""


OWNER = "owner.pid"


class UnavailableError(Exception):
    """SLURM cannot be had, or may not be started, here; the message says why."""


class NotReadyError(Exception):
    """SLURM is here and was started, and did not get ready or has ended."""


class Job(NamedTuple):
    """What squeue says of a job."""

    number: str
    state: str
    node: str
    megabytes: str
    limit: str
    start: str
    end: str
    partition: str
    folder: str


class Slurm:
    """A controller and its nodes, as a context; ended and removed on the way out."""

    def __enter__(self):
        remove_left()
        refuse_if_present()
        self.folder = Path(tempfile.mkdtemp(prefix="slurm-"))
        (self.folder / OWNER).write_text(f"{os.getpid()}\n")
        self.daemons = []
        try:
            self._unpack()
            self._configure()
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.daemons:
            with suppress(NotReadyError, subprocess.TimeoutExpired):
                self.run("scancel", "--quiet", "--user", str(os.getuid()), check=False)
                self._until(lambda: not self.run("squeue", "-h", check=False), 20)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()
        end_what_is_left(self.folder)
        shutil.rmtree(self.folder)

    @property
    def environment(self):
        """What a process needs to find this SLURM."""
        root = self.folder / "root/usr"
        programs = [self.folder / "bin", root / "bin", root / "sbin"]
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("SLURM")},
            "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]]),
            "LD_LIBRARY_PATH": f"{self.libraries}:{self.libraries}/slurm-wlm",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }

    def run(self, *command, check=True):
        """Return what a command of SLURM prints."""
        done = subprocess.run(
            command,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0 or not check, done.stdout + done.stderr
        return done.stdout

    def jobs(self, folder):
        """Return every job so far from a folder, in the order of their submission."""
        form = "%i|%T|%N|%m|%l|%S|%e|%P|%Z"
        said = self.run("squeue", "-h", "--states=all", "--sort=i", "-o", form)
        jobs = [Job(*line.split("|")) for line in said.splitlines()]
        return [job for job in jobs if job.folder == str(folder)]

    def stop_controller(self):
        """End the controller in an orderly way; nodes and jobs go on."""
        self.daemons.remove(self.controller)
        self.controller.terminate()
        self.controller.wait(60)

    def start_controller(self):
        """Start the controller, and return when it answers."""
        self.controller = self._daemon("slurmctld", "-D")
        self._until(lambda: "UP" in self.run("scontrol", "ping", check=False), READY)

    def nodes_busy_at_once(self, jobs):
        """Return the most nodes that were at work at one moment."""
        spans = [job for job in jobs if job.node and job.end > job.start]
        return max(
            len({other.node for other in spans if other.start <= job.start < other.end})
            for job in spans
        )

    def give(self, node, **variables):
        """Let tasks on a node see other environment variables; none: as they were."""
        path = self.folder / "environment" / node
        lines = (f"export {name}={value}\n" for name, value in variables.items())
        path.write_text("".join(lines))

    def _unpack(self):
        """Download the packages and what they need, and unpack them here."""
        lists, cache = self.folder / "lists", self.folder / "cache"
        for path in (lists / "partial", cache / "archives/partial"):
            path.mkdir(parents=True)
        apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={lists}"]
        apt += ["-o", f"Dir::Cache={cache}", "-o", "Debug::NoLocking=1"]
        apt += ["-o", "APT::Sandbox::User=", "-o", "Acquire::Retries=3"]
        install = ["install", "--download-only", "--no-install-recommends", "-y"]
        for command in (["update"], [*install, *PACKAGES]):
            done = subprocess.run(
                [*apt, *command], capture_output=True, text=True, check=False
            )
            if done.returncode != 0:
                last = done.stderr.strip().splitlines()[-1:]
                raise UnavailableError(f"apt-get {command[0]} failed: {' '.join(last)}")
        for package in (cache / "archives").glob("*.deb"):
            command = ["dpkg-deb", "--extract", package, self.folder / "root"]
            subprocess.run(command, check=True)
        # Slurm's programs look at the name that they are called by.
        programs = self.folder / "root/usr/sbin"
        for name in ("slurmctld", "slurmd", "slurmstepd"):
            if not (programs / name).exists():
                (programs / name).symlink_to(f"{name}-wlm")
        plugins = next((self.folder / "root/usr/lib").glob("*/slurm-wlm"))
        self.libraries = plugins.parent

    def _configure(self):
        for name in ("munge", "state", "spool", "environment", "bin"):
            (self.folder / name).mkdir()
        (self.folder / "munge/key").write_bytes(secrets.token_bytes(1024))
        (self.folder / "munge/key").chmod(0o400)
        # Other users' munge, and jobs, reach what is theirs; not the key.
        for path in (self.folder, self.folder / "munge"):
            path.chmod(0o755)
        for name, script in (("prolog", PROLOG), ("bin/srun", SRUN)):
            (self.folder / name).write_text(script.format(folder=self.folder))
            (self.folder / name).chmod(0o755)
        names = NODES + UNLUCKY
        ports = free_ports(1 + len(names))
        host = socket.gethostname().split(".")[0]
        nodes = [
            NODE.format(name=name, host=host, port=port)
            for name, port in zip(names, ports[1:], strict=True)
        ]
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=host,
                user=os.getuid(),
                folder=self.folder,
                plugins=self.libraries / "slurm-wlm",
                ports=ports,
                nodes="\n".join(nodes),
                main=",".join(NODES),
                unlucky=",".join(UNLUCKY),
            )
        )

    def _start(self):
        munge = self.folder / "munge"
        files = [f"--{name}-file={munge}/{name}" for name in ("key", "pid", "log")]
        files += [f"--seed-file={munge}/seed", f"--socket={munge}/socket"]
        self._daemon("munged", "--foreground", *files)
        self._until((munge / "socket").exists, READY)
        self.start_controller()
        stepd = self.folder / "root/usr/sbin/slurmstepd"
        for node in NODES + UNLUCKY:
            self._daemon("slurmd", "-D", "-N", node, "-d", stepd)
        idle = {f"{node} idle" for node in NODES + UNLUCKY}
        sinfo = ("sinfo", "-h", "-N", "-o", "%N %T")
        self._until(
            lambda: set(self.run(*sinfo, check=False).splitlines()) == idle, READY
        )

    def _daemon(self, *command):
        """Start a program that ends with this process, however that ends."""
        with (self.folder / f"{command[0]}.out").open("a") as out:
            daemon = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", *map(str, command)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.daemons.append(daemon)
        return daemon

    def _until(self, condition, seconds):
        """Wait for a condition while all daemons run."""
        deadline = time.monotonic() + seconds
        while not condition():
            for daemon in self.daemons:
                if daemon.poll() is not None:
                    raise NotReadyError(f"{daemon.args[3]} ended: {self._last_words()}")
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"SLURM was not ready after {seconds} s: {self._last_words()}"
                )
            time.sleep(0.1)

    def _last_words(self):
        lines = [
            path.read_text(errors="replace").strip().splitlines()[-1:]
            for path in sorted(self.folder.glob("*.out"))
        ]
        return "; ".join(line[0] for line in lines if line)


def start_or_skip(slurm, stack):
    """Start a SLURM, skip where there is none to start, and fail where it does not."""
    try:
        return stack.enter_context(slurm)
    except UnavailableError as reason:
        pytest.skip(f"NOT TESTED: {reason}")
    except NotReadyError as reason:
        pytest.fail(f"SLURM is here and does not work: {reason}", pytrace=False)


def refuse_if_present():
    """Refuse to start beside a SLURM or munge that is here already."""
    missing = [
        name
        for name in ("apt-get", "dpkg-deb", "setpriv")
        if shutil.which(name) is None
    ]
    if missing:
        raise UnavailableError(
            f"SLURM is taken from Debian's packages: no {missing[0]} here"
        )
    found = [path for path in PRESENT if Path(path).exists()]
    if "SLURM_CONF" in os.environ:
        found.append("SLURM_CONF in the environment")
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = path.read_text().strip()
            alive = path.with_name("cmdline").read_bytes()
        except OSError:  # it has ended
            continue
        if name in PROGRAMS and alive:
            found.append(f"{name} (process {path.parent.name})")
    if found:
        raise UnavailableError(f"there is a SLURM or munge already: {', '.join(found)}")


def end_what_is_left(folder):
    """Kill jobs that SLURM itself lost sight of, with a node that was down, say."""
    deadline = time.monotonic() + 10
    while (left := started_by(folder)) and time.monotonic() < deadline:
        for process in left:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.1)


def started_by(folder):
    """Return the processes that run and were started by the SLURM of a folder."""
    mark = f"SLURM_CONF={folder}/slurm.conf".encode()
    left = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or is another user's
            if mark in path.read_bytes().split(b"\0"):
                left.append(int(path.parent.name))
    return left


def remove_left():
    """Remove the folders of those that were killed, and jobs that outlived them."""
    for owner in Path(tempfile.gettempdir()).glob(f"slurm-*/{OWNER}"):
        process = owner.read_text().strip()
        mine = owner.stat().st_uid == os.getuid()
        if mine and process and not Path("/proc", process).exists():
            end_what_is_left(owner.parent)
            shutil.rmtree(owner.parent)


def free_ports(number):
    """Return ports of this machine that nobody listens on."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
