"""What each engine's file states: its command line, its dialect, what it can tell, what it refuses."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

import engines
from engines import KINDS, Engine, EngineConfig, EngineError, check_options, create
from engines.process.exit_reason import explain_exit
from tests.engines.helpers import model_folder, standin


def tool(tmp_path: Path, name: str) -> str:
    path = tmp_path / name
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    return str(path)


def engine(tmp_path: Path, kind: str, **changes: Any) -> Engine:
    binary = tool(tmp_path, "binary")
    config = EngineConfig(name="e", kind=kind, binary=binary, port=8123, slots=4, max_seq_len=2048, threads=3)
    return create(replace(config, model=model_folder(tmp_path / "hf"), **changes))


def option(engine: Engine, name: str) -> str:
    argv = engine.argv()
    return argv[argv.index(name) + 1]


@pytest.mark.parametrize("kind", ["llama_cpp", "llama_cpp_wheel"])
def test_llama_cpp_gets_context_for_every_slot(tmp_path: Path, kind: str) -> None:
    llama = engine(tmp_path, kind)
    assert option(llama, "--ctx-size") == "8192"
    assert option(llama, "--parallel") == "4"
    assert option(llama, "--threads") == "3"


def test_llama_cpp_may_neither_shrink_its_context_nor_keep_prompts(tmp_path: Path) -> None:
    llama = engine(tmp_path, "llama_cpp")
    assert option(llama, "--fit") == "off"
    assert option(llama, "--cache-ram") == "0"
    assert option(engine(tmp_path, "llama_cpp", cache=True), "--cache-ram") == "-1"


def test_llama_cpp_is_asked_for_cold_prompts_without_thinking_or_hidden_samplers(tmp_path: Path) -> None:
    fields = engine(tmp_path, "llama_cpp").request_fields({"temperature": 0.0}, fixed_length=True)
    assert fields == {
        "temperature": 0.0,
        "ignore_eos": True,
        "cache_prompt": False,
        "chat_template_kwargs": {"enable_thinking": False},
        "min_p": 0.0,
        "repeat_penalty": 1.0,
    }


def test_the_profiles_sampling_has_the_last_word_over_an_engines_defaults(tmp_path: Path) -> None:
    assert engine(tmp_path, "llama_cpp").request_fields({"min_p": 0.1}, fixed_length=False)["min_p"] == 0.1
    fields = engine(tmp_path, "vllm").request_fields({"repeat_penalty": 1.1}, fixed_length=False)
    assert fields["repetition_penalty"] == 1.1 and "repeat_penalty" not in fields


def test_an_option_given_by_hand_comes_last(tmp_path: Path) -> None:
    assert engine(tmp_path, "llama_cpp", args=("-c", "4096")).argv()[-2:] == ["-c", "4096"]


def test_transformers_gets_only_fields_that_it_knows(tmp_path: Path) -> None:
    sampling = {"temperature": 0.0, "top_p": 1.0, "top_k": 1, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    fields = engine(tmp_path, "transformers_serve").request_fields(sampling, fixed_length=True)
    assert set(fields) == {"temperature", "top_p", "chat_template_kwargs", "generation_config"}
    assert json.loads(fields["generation_config"])["eos_token_id"] == -1


def test_transformers_is_sent_what_it_has_no_word_for_so_that_it_refuses_openly(tmp_path: Path) -> None:
    fields = engine(tmp_path, "transformers_serve").request_fields(
        {"temperature": 0.7, "top_k": 20, "presence_penalty": 0.5}, fixed_length=False
    )
    assert fields["top_k"] == 20 and fields["presence_penalty"] == 0.5


def test_transformers_gets_a_cache_for_its_slots_and_not_all_memory(tmp_path: Path) -> None:
    assert option(engine(tmp_path, "transformers_serve", slots=3, max_seq_len=1000), "--cb-num-blocks") == "12"
    one_by_one = engine(tmp_path, "transformers_serve", options={"continuous_batching": False})
    assert not any(word.startswith("--c") for word in one_by_one.argv())


def test_vllm_runs_without_its_prefix_cache_and_tells_cached_tokens(tmp_path: Path) -> None:
    argv = engine(tmp_path, "vllm").argv()
    assert "--no-enable-prefix-caching" in argv and "--enable-prompt-tokens-details" in argv
    assert option(engine(tmp_path, "vllm"), "--max-model-len") == "2048"
    assert option(engine(tmp_path, "vllm"), "--max-num-seqs") == "4"


def test_xserv_has_a_sane_command_line(tmp_path: Path) -> None:
    xserv = engine(tmp_path, "xserv")
    assert xserv.argv()[1] == str(tmp_path / "hf")
    assert option(xserv, "--max-seq-len") == "2048"
    assert option(xserv, "--max-batch") == "4"
    assert option(xserv, "--swap-space-gb") == "8"


def test_xservs_command_line_is_a_template(tmp_path: Path) -> None:
    options = {"argv": ["{binary}", "--model-dir", "{model}", "--port={port}"], "max_kv_blocks": 32}
    xserv = engine(tmp_path, "xserv", options=options)
    assert xserv.argv()[1:] == ["--model-dir", str(tmp_path / "hf"), "--port=8123"]
    assert xserv.env()["XSERV_MAX_KV_BLOCKS"] == "32"


@pytest.mark.parametrize("word", ["{modell}", "{0}", "{model"])
def test_a_mistake_in_xservs_template_is_one_line_that_lists_the_fields(tmp_path: Path, word: str) -> None:
    with pytest.raises(EngineError, match=r"options.argv.*{max_seq_len}"):
        engine(tmp_path, "xserv", options={"argv": ["{binary}", word]}).check()


def test_thinking_cannot_be_asked_of_xserv(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="hard-coded off"):
        engine(tmp_path, "xserv", thinking=True).check()


def test_an_unknown_option_of_xserv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"options\.swapspace"):
        engine(tmp_path, "xserv", options={"swapspace": 1}).check()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_option_that_a_kind_does_not_have_is_named_whatever_the_kind(tmp_path: Path, kind: str) -> None:
    with pytest.raises(EngineError, match=r"options\.devise: unknown; did you mean 'device'"):
        engine(tmp_path, kind, options={"devise": "cpu"})


@pytest.mark.parametrize(
    ("kind", "option", "value", "expected"),
    [
        ("xserv", "tp", "two", "a whole number"),
        ("xserv", "tp", True, "a whole number"),
        ("xserv", "argv", "server {port}", "a list"),
        ("transformers_serve", "continuous_batching", "yes", "true or false"),
        ("pacing", "ttft_ms", "5", "a number"),
        ("llama_cpp", "device", 0, "text in quotes"),
    ],
)
def test_an_options_value_of_another_type_is_named_with_what_was_expected(
    kind: str, option: str, value: object, expected: str
) -> None:
    with pytest.raises(ValueError, match=rf"options\.{option}: {value!r} was given; expected {expected}"):
        check_options(kind, {option: value})


def test_a_number_option_takes_a_whole_number() -> None:
    check_options("xserv", {"swap_space_gb": 4, "tp": 2})


@pytest.mark.parametrize("body", ["{}", '{"data": []}', '{"data": null}', '{"data": ["m"]}', "[]", '"m"', "{", ""])
def test_an_answer_of_another_shape_than_expected_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    answer = requests.Response()
    answer.status_code, answer._content = 200, body.encode()
    monkeypatch.setattr(requests.Session, "get", lambda *args, **kwargs: answer)
    told = engine(tmp_path, "remote", url="http://127.0.0.1:1").read_back()
    assert (told.model, told.build, told.context_per_slot) == (None, None, None)


@pytest.mark.parametrize("kind", ["xserv", "transformers_serve", "vllm"])
def test_a_folder_without_weights_is_refused_before_the_start(tmp_path: Path, kind: str) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "config.json").write_text("{}")
    with pytest.raises(EngineError, match="holds no"):
        replaced(engine(tmp_path, kind), model=empty).check()
    with pytest.raises(EngineError, match="no such folder"):
        replaced(engine(tmp_path, kind), model=tmp_path / "nowhere").check()


@pytest.mark.parametrize("kind", ["llama_cpp", "llama_cpp_wheel"])
def test_a_model_that_is_no_gguf_is_refused_before_the_start(tmp_path: Path, kind: str) -> None:
    wrong = tmp_path / "model.gguf"
    wrong.write_bytes(b"PK\x03\x04 not weights")
    with pytest.raises(EngineError, match=r"not a GGUF file.*convert"):
        replaced(engine(tmp_path, kind), model=wrong).check()
    with pytest.raises(EngineError, match="No such file"):
        replaced(engine(tmp_path, kind), model=tmp_path / "nowhere.gguf").check()
    with pytest.raises(EngineError, match="is a folder"):
        replaced(engine(tmp_path, kind), model=tmp_path).check()


def test_an_engine_is_found_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.py").write_text("from engines.remote import Remote\nclass Toy(Remote):\n    kind = 'toy'\n")
    (tmp_path / "shared.py").write_text("from engines.remote import Remote\nclass Shared(Remote):\n    pass\n")
    monkeypatch.setattr(engines, "__path__", [*engines.__path__, str(tmp_path)])
    found = engines._kinds()
    assert set(found) == {*KINDS, "toy"}
    assert issubclass(found["toy"], Engine)
    for name in ("engines.toy", "engines.shared"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"command", "remote", "llama_cpp_wheel", "pacing"}))
def test_a_missing_binary_is_one_line(tmp_path: Path, kind: str) -> None:
    with pytest.raises(EngineError, match="no executable 'nowhere-to-be-found'"):
        replaced(engine(tmp_path, kind), binary="nowhere-to-be-found").argv()


def test_secrets_are_hidden_in_what_is_written_down(tmp_path: Path) -> None:
    shown = engine(tmp_path, "vllm", args=("--api-key", "abc", "--api-key=def", "--seed", "1"), env={"HF_TOKEN": "ghi"})
    text = " ".join(shown.shown_argv()) + json.dumps(shown.shown_env())
    assert not any(secret in text for secret in ("abc", "def", "ghi"))
    assert shown.shown_argv()[-2:] == ["--seed", "1"]
    assert shown.argv() != shown.shown_argv()


def test_an_option_that_only_sounds_secret_keeps_its_neighbour(tmp_path: Path) -> None:
    words = ("--max-tokens", "5", "--override-kv", "tokenizer.ggml.add_bos_token=bool:false")
    shown = engine(tmp_path, "llama_cpp", args=words)
    assert shown.shown_argv() == shown.argv()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ggml_cuda: CUDA error: out of memory", "out of GPU memory"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "out of GPU memory"),
        ("CUDA error: no kernel image is available for execution on the device", "another GPU"),
        ("error while loading shared libraries: libcudart.so.12: cannot open shared object file", "library"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "host memory"),
        ("OSError: [Errno 98] Address already in use", "port"),
    ],
)
def test_a_telling_line_of_a_log_is_put_in_words(line: str, words: str) -> None:
    told = explain_exit(f"loading\n{line}\n", 1)
    assert told is not None and words in told and line in told


def test_an_exit_that_nothing_explains_is_not_explained() -> None:
    assert explain_exit("loading\nok\n", 1) is None


def test_a_remote_engine_sends_the_key_of_the_environment_and_shows_it_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINEBENCH_API_KEY", "sk-1")
    remote = create(EngineConfig(name="r", kind="remote", url="http://127.0.0.1:1/v1/"))
    assert remote.base_url == "http://127.0.0.1:1"
    assert remote.auth() == {"Authorization": "Bearer sk-1"}
    assert "sk-1" not in json.dumps([remote.shown_argv(), remote.shown_env()])


def test_a_user_and_password_in_a_url_go_nowhere() -> None:
    remote = create(EngineConfig(name="r", kind="remote", url="https://me:p@ss@host:8000/v1"))
    assert remote.base_url == "https://host:8000"


@pytest.mark.parametrize(
    "key", ["sk-1\u2026", "sk\u2013secret-1", "sk-1\u200b", "sk-secret 1", "sk-secret-1\r\nHost: x"]
)
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBENCH_API_KEY", key)
    remote = create(EngineConfig(name="r", kind="remote", url="http://127.0.0.1:1"))
    with pytest.raises(EngineError, match="ENGINEBENCH_API_KEY: character") as refused:
        remote.check()
    assert "sk" not in str(refused.value) and "\n" not in str(refused.value)


def replaced(engine: Engine, **changes: Any) -> Engine:
    return create(replace(engine.config, **changes))


def test_swap_events_are_counted_in_xservs_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("INFO swapped out 3 KV blocks\nINFO swap_in: 3 blocks\nINFO swap space: 8 GB\n")
    assert standin(tmp_path).log_findings(log) == {"swap_events": 2, "busy_refusals": 0}
    assert standin(tmp_path).log_findings(tmp_path / "no.log")["swap_events"] is None


def built(cache: Path, name: str, when: float) -> Path:
    """A finished build as enginebench build leaves it."""
    server = cache / "build" / name / "bin" / "llama-server"
    server.parent.mkdir(parents=True)
    server.write_text("#!/bin/sh\nexit 0\n")
    server.chmod(0o755)
    (server.parent.parent / "provenance.json").write_text(json.dumps({"source": {"build": name}, "built": when}))
    return server


def test_llama_cpp_takes_the_build_that_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.build.llama_server.cache_dir", lambda: tmp_path / "cache")
    old, new = built(tmp_path / "cache", "b9371", 1.0), built(tmp_path / "cache", "b9400", 2.0)
    llama = engine(tmp_path, "llama_cpp")
    assert replaced(llama, binary=None).argv()[0] == str(new)
    pinned = replaced(llama, binary="build", options={"build": "b9371"})
    assert pinned.argv()[0] == str(old)
    assert pinned.provenance() == {"source": {"build": "b9371"}, "built": 1.0}
    assert llama.provenance() is None
    with pytest.raises(EngineError, match=r"no build of b1. in the cache"):
        replaced(llama, binary="build", options={"build": "b1."}).argv()


def test_a_build_without_git_is_named_by_its_provenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from engines.llama_cpp import LlamaCpp

    monkeypatch.setattr("engines.build.llama_server.cache_dir", lambda: tmp_path / "cache")
    built(tmp_path / "cache", "b9371", 1.0)
    llama = replaced(engine(tmp_path, "llama_cpp"), binary="build")
    assert isinstance(llama, LlamaCpp)
    assert llama.build_name({"build_info": "b0-unknown"}) == "b9371"
    assert llama.build_name({"build_info": "b9371-f12cc6d0"}) == "b9371-f12cc6d0"


def test_layers_kept_on_the_host_need_no_card(tmp_path: Path) -> None:
    for args in (("-ngl", "0"), ("--n-gpu-layers=0",), ("--device", "none")):
        assert not engine(tmp_path, "llama_cpp", args=args, options={"device": "cuda"}).on_gpu()
    assert engine(tmp_path, "llama_cpp", args=("-ngl", "99"), options={"device": "cuda"}).on_gpu()
