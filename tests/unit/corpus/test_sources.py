from __future__ import annotations

import gzip
import os
import subprocess
from pathlib import Path

import pytest

from hpcllm.corpus import git_checkout
from hpcllm.corpus.matching import matches_any
from hpcllm.corpus.source_files import FolderWalk, Links
from hpcllm.corpus.sources import (
    FolderSource,
    GitSource,
    ManSource,
    Source,
    SourceFiles,
    load_sources,
    open_source,
)
from hpcllm.errors import ConfigError, IngestError


def opened(source: Source, tmp_path: Path) -> SourceFiles:
    return open_source(source, workspace_root=tmp_path, cache_dir=tmp_path / "cache")


def paths(files: SourceFiles) -> list[str]:
    return [entry.path for entry in files]


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        target = root / name.replace("__", "/").replace("_md", ".md")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


# Globs


@pytest.mark.parametrize(
    ("path", "glob", "expected"),
    [
        ("a.md", "*.md", True),
        ("x/y/a.md", "*.md", True),
        ("x/y/a.md", "x/*.md", False),
        ("x/y/a.md", "x/**/*.md", True),
        ("x/a.md", "x/**/*.md", True),
        ("x/a.md", "**/a.md", True),
        ("a.md", "**/a.md", True),
        ("x/y/z", "x", True),
        ("x/y/z", "x/**", True),
        ("docs/x/z", "x", True),
        ("docs/xx/z", "x", False),
        ("docs/a1.md", "docs/a[0-9].md", True),
        ("docs/ab.md", "docs/a[!0-9].md", True),
        ("docs/a(1)+.md", "docs/a(1)+.md", True),
        ("a.mdx", "*.md", False),
        ("./a.md", "a.md", True),
    ],
)
def test_globs(path: str, glob: str, expected: bool) -> None:
    assert matches_any(path, [glob]) is expected


# The list


def test_list_is_read_in_order_without_those_switched_off(tmp_path: Path) -> None:
    file = tmp_path / "sources.toml"
    file.write_text(
        """
[[source]]
name = "handbook"
path = "handbook"
exclude = ["drafts"]
[source.options]
url_style = "html"
variables = { command = "apptainer" }

[[source]]
name = "off"
kind = "git"
url = "https://example.org/x.git"
enabled = false

[[source]]
name = "slurm-man"
kind = "man"
pages = ["sbatch.1"]
weight = 0.8
"""
    )
    sources = load_sources(file)
    assert [source.name for source in sources] == ["handbook", "slurm-man"]
    assert isinstance(sources[0], FolderSource)
    assert sources[0].options["variables"] == {"command": "apptainer"}
    assert isinstance(sources[1], ManSource)
    assert sources[1].weight == 0.8


def test_all_problems_are_named_at_once(tmp_path: Path) -> None:
    file = tmp_path / "sources.toml"
    file.write_text(
        """
[sources]
[[source]]
name = "Bad Name"
pth = "x"
[[source]]
name = "two"
kind = "gti"
[[source]]
name = "three"
kind = "git"
url = "ext::sh -c id"
[[source]]
name = "four"
kind = "git"
path = "a"
url = "https://example.org"
[[source]]
name = "five"
path = "x"
base_url = "docs.example.org"
options = { url_style = "directori" }
[[source]]
name = "six"
kind = "man"
[[source]]
name = "seven"
path = "a"
[[source]]
name = "seven"
path = "b"
"""
    )
    with pytest.raises(ConfigError) as caught:
        load_sources(file)
    text = str(caught.value)
    assert "sources: unknown key; did you mean 'source'?" in text
    assert "pth: unknown key; did you mean 'path'?" in text
    assert "source 2 (two): kind must be one of folder, git, man, web, tickets, got 'gti'" in text
    assert "did you mean 'git'?" in text
    assert "expected an address that starts with https://, ssh://, file://" in text
    assert "exactly one of 'url' and 'path' is needed" in text
    assert "expected an address that starts with https:// or http://" in text
    assert "one of 'pages' and 'sections' is needed" in text
    assert "name 'seven' stands at 2 sources: give each its own" in text


def test_wrong_url_style_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "sources.toml"
    file.write_text('[[source]]\nname = "a"\npath = "x"\noptions = { url_style = "directori" }\n')
    with pytest.raises(ConfigError, match="got 'directori'; did you mean 'directory'"):
        load_sources(file)
    file.write_text('source = "x"\n')
    with pytest.raises(ConfigError, match="with two brackets"):
        load_sources(file)


# Folders


def test_folder_gives_files_sorted_and_filtered(tmp_path: Path) -> None:
    write(
        tmp_path / "docs",
        b_md="b", a__x_md="x", a__y_md="y", drafts__d_md="d", **{".git__config": "no"},
        node_modules__m_md="no", note="text",
    )  # fmt: skip
    source = FolderSource(name="s", path="docs", include=("*.md",), exclude=("drafts", "a/y.md"))
    files = opened(source, tmp_path)
    assert paths(files) == ["a/x.md", "b.md"]
    assert files.skipped == ()
    entry = next(iter(files))
    assert (entry.read(), entry.size) == (b"x", 1)
    assert entry.modified_ns == (tmp_path / "docs/a/x.md").stat().st_mtime_ns
    assert len(files) == 2


def test_links_are_followed_inside_and_never_in_circles(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, z__real_md="r")
    (tmp_path / "secret").write_text("s")
    (docs / "a").symlink_to(docs / "z")
    (docs / "z" / "up").symlink_to(docs)
    (docs / "loop").symlink_to(docs / "loop")
    (docs / "out").symlink_to(tmp_path / "secret")
    (docs / "gone").symlink_to(docs / "nothing")
    (docs / "copy.md").symlink_to(docs / "z" / "real.md")
    files = opened(FolderSource(name="s", path="docs"), tmp_path)
    assert paths(files) == ["copy.md", "z/real.md"]
    reasons = dict(files.skipped)
    assert reasons["out"] == "a link that leads out of the source's folder"
    assert reasons["loop"] == reasons["gone"] == "a link that leads nowhere or in a circle"
    assert reasons["a"] == reasons["z/up"] == "a link to a folder that is read elsewhere"


def test_large_and_special_files_are_skipped_with_reason(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, big_md="x" * 2000, ok_md="x")
    os.mkfifo(docs / "pipe.md")
    files = opened(FolderSource(name="s", path="docs", size_limit_mb=0.001), tmp_path)
    assert paths(files) == ["ok.md"]
    reasons = dict(files.skipped)
    assert reasons["big.md"].startswith("is larger than 0.001 MB")
    assert "raise size_limit_mb" in reasons["big.md"]
    assert reasons["pipe.md"] == "not a regular file"


def test_file_that_grew_or_went_is_an_ingest_error(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, a_md="x", b_md="x")
    first, second = opened(FolderSource(name="s", path="docs", size_limit_mb=0.001), tmp_path)
    (docs / "a.md").write_text("x" * 5000)
    with pytest.raises(IngestError, match="is larger than"):
        first.read()
    (docs / "b.md").unlink()
    with pytest.raises(IngestError, match=r"b\.md cannot be read: No such file"):
        second.read()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_and_folder_are_reported(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    write(docs, a_md="x", closed__b_md="x")
    (docs / "a.md").chmod(0)
    (docs / "closed").chmod(0)
    try:
        files = opened(FolderSource(name="s", path="docs"), tmp_path)
    finally:
        (docs / "closed").chmod(0o700)
    reasons = dict(files.skipped)
    assert reasons["a.md"] == "cannot be read: check its permissions"
    assert "cannot be opened: Permission denied" in reasons["closed/"]


def test_file_without_permission_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "docs", a_md="x", b_md="x")
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("a.md"))
    files = opened(FolderSource(name="s", path="docs"), tmp_path)
    assert paths(files) == ["b.md"]
    assert files.skipped == (("a.md", "cannot be read: check its permissions"),)


def test_empty_and_missing_folders_say_what_was_expected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "docs").mkdir()
    files = opened(FolderSource(name="s", path="docs", include=("*.md",)), tmp_path)
    expected = f"holds nothing to read: files matching *.md were expected in {tmp_path / 'docs'}"
    assert files.skipped == ((".", expected),)
    assert expected in caplog.text
    with pytest.raises(IngestError, match="nothing does not exist; expected a folder of documents"):
        opened(FolderSource(name="s", path="nothing"), tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(IngestError, match="file is a file; expected a folder"):
        opened(FolderSource(name="s", path="file"), tmp_path)


# Addresses


@pytest.mark.parametrize(
    ("style", "path", "expected"),
    [
        ("directory", "docs/a/b.md", "a/b/"),
        ("directory", "docs/a/index.md", "a/"),
        ("directory", "docs/README.md", ""),
        ("directory", "docs/a/form.pdf", "a/form.pdf"),
        ("html", "docs/a/b.rst", "a/b.html"),
        ("html", "docs/index.rst", "index.html"),
        ("html", "docs/a/README.md", "a/index.html"),
        ("html", "docs/gres.shtml", "gres.html"),
        ("html", "docs/sbatch.1", "sbatch.html"),
        ("file", "docs/a/b c.md", "a/b%20c.md"),
        ("auto", "docs/a/b.rst", "a/b.html"),
        ("auto", "other/b.md", "other/b.md"),
    ],
)
def test_addresses(style: str, path: str, expected: str) -> None:
    links = Links("https://docs.example.org/en/", style, ("docs",))  # type: ignore[arg-type]
    assert links.address(path) == f"https://docs.example.org/en/{expected}"


def test_address_style_is_told_from_the_generators_settings(tmp_path: Path) -> None:
    write(tmp_path, docs__a_md="x")
    (tmp_path / "mkdocs.yml").write_text("")
    source = FolderSource(name="s", path="docs", base_url="https://d.example.org")
    assert opened(source, tmp_path).url_for("a.md") == "https://d.example.org/a/"
    plain = FolderSource(name="s", path="docs")
    assert opened(plain, tmp_path).url_for("a.md") is None


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https://github.com/o/r.git", "https://github.com/o/r/blob/abc/docs/a.md"),
        ("https://gitlab.example.org/o/r", "https://gitlab.example.org/o/r/-/blob/abc/docs/a.md"),
    ],
)
def test_addresses_in_a_repository(base: str, expected: str) -> None:
    links = Links(base, "repository", revision="abc", subfolder="docs")
    assert links.address("a.md") == expected


# Git


def git(folder: Path, *arguments: str) -> str:
    settings = [
        "-c",
        "user.name=t",
        "-c",
        "user.email=t@example.org",
        "-c",
        "init.defaultBranch=main",
    ]
    command = ["git", *settings, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    write(root, docs__a_md="first", readme_md="r")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "one")
    git(root, "tag", "v1")
    return root


def test_local_checkout_has_its_commit_and_deep_links(repository: Path, tmp_path: Path) -> None:
    source = GitSource(
        name="g", kind="git", path="repo", subfolder="docs",
        base_url="https://github.com/o/r", options={"url_style": "repository"},
    )  # fmt: skip
    files = opened(source, tmp_path)
    commit = git(repository, "rev-parse", "HEAD")
    assert paths(files) == ["a.md"]
    assert files.revision == commit
    assert files.url_for("a.md") == f"https://github.com/o/r/blob/{commit}/docs/a.md"


def test_fetched_repository_is_shallow_and_follows_new_commits(
    repository: Path, tmp_path: Path
) -> None:
    source = GitSource(name="g", kind="git", url=repository.as_uri(), subfolder="docs")
    first = opened(source, tmp_path)
    assert [entry.read() for entry in first] == [b"first"]
    (repository / "docs/a.md").unlink()
    write(repository, docs__b_md="second")
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "two")
    second = opened(source, tmp_path)
    assert paths(second) == ["b.md"]
    assert second.revision == git(repository, "rev-parse", "HEAD") != first.revision
    assert len(git(second.root, "log", "--oneline").splitlines()) == 1
    tagged = GitSource(name="g", kind="git", url=repository.as_uri(), ref="v1", subfolder="docs")
    assert paths(opened(tagged, tmp_path)) == ["a.md"]
    local = GitSource(name="g", kind="git", path="repo", ref=first.revision, subfolder="docs")
    assert paths(opened(local, tmp_path)) == ["a.md"]


def test_earlier_checkout_serves_when_the_repository_is_out_of_reach(
    repository: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = GitSource(name="g", kind="git", url=repository.as_uri())
    opened(source, tmp_path)
    repository.rename(tmp_path / "moved")
    assert paths(opened(source, tmp_path)) == ["docs/a.md", "readme.md"]
    assert "going on with the checkout of" in caplog.text


def test_git_problems_say_what_to_do(repository: Path, tmp_path: Path) -> None:
    missing = GitSource(name="g", kind="git", url=(tmp_path / "none").as_uri())
    with pytest.raises(IngestError, match="source g: git fetch failed"):
        opened(missing, tmp_path)
    assert not list((tmp_path / "cache/git").glob("none*"))
    with pytest.raises(IngestError, match=r"git fetch failed.*nosuch"):
        opened(GitSource(name="g", kind="git", url=repository.as_uri(), ref="nosuch"), tmp_path)
    (tmp_path / "plain").mkdir()
    with pytest.raises(IngestError, match="no git checkout with a commit: use kind"):
        opened(GitSource(name="g", kind="git", path="plain"), tmp_path)
    with pytest.raises(IngestError, match="does not exist: mend 'path'"):
        opened(GitSource(name="g", kind="git", path="absent"), tmp_path)


def test_missing_git_names_the_package(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(IngestError, match="install the package git"):
        opened(GitSource(name="g", kind="git", path="repo"), tmp_path)


@pytest.mark.parametrize("ref", ["-x", "--upload-pack=touch x", "a b", ""])
def test_refs_that_could_be_options_are_refused(ref: str) -> None:
    with pytest.raises(ValueError, match="ref"):
        GitSource(name="g", kind="git", path="x", ref=ref)


@pytest.mark.parametrize("subfolder", ["../up", "/etc", "a/../../b"])
def test_subfolder_stays_inside(subfolder: str) -> None:
    with pytest.raises(ValueError, match="subfolder"):
        GitSource(name="g", kind="git", path="x", subfolder=subfolder)


@pytest.mark.parametrize("url", ["http://x/y", "ext::sh -c id", "git@h:x", "-x", "https://", "x"])
def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected an address.*ssh://git@host/path"):
        GitSource(name="g", kind="git", url=url)


def test_hooks_of_a_repository_do_not_run(repository: Path, tmp_path: Path) -> None:
    source = GitSource(name="g", kind="git", url=repository.as_uri())
    root = opened(source, tmp_path).root
    hook = root / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    opened(source, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_passwords_do_not_get_into_messages() -> None:
    assert git_checkout.redacted("at https://me:secret@host/x") == "at https://***@host/x"


# Man pages


@pytest.fixture
def manuals(tmp_path: Path) -> Path:
    root = tmp_path / "man"
    for section in (1, 5):
        (root / f"man{section}").mkdir(parents=True)
    (root / "man1/sbatch.1").write_text(".TH sbatch 1\n")
    (root / "man1/squeue.1.gz").write_bytes(gzip.compress(b".TH squeue 1\n"))
    (root / "man1/ls.1").write_text(".TH ls 1\n")
    (root / "man1/verify.1ssl").write_text(".TH verify 1ssl\n")
    (root / "man1/old.1.xz").write_bytes(b"x")
    (root / "man5/slurm.conf.5").write_text(".TH slurm.conf 5\n")
    return root


def test_single_pages_and_missing_ones(manuals: Path, tmp_path: Path) -> None:
    source = ManSource(
        name="m", kind="man", pages=("squeue.1", "slurm.conf.5", "sinfo.1"), folders=("man",)
    )
    files = opened(source, tmp_path)
    assert paths(files) == ["man1/squeue.1", "man5/slurm.conf.5"]
    assert files.root == manuals
    reasons = dict(files.skipped)
    assert reasons["sinfo.1"].startswith(f"no such page in {manuals}: install the package")
    assert reasons["man1/old.1.xz"] == "compressed otherwise than by gzip"


def test_sections_with_names(manuals: Path, tmp_path: Path) -> None:
    source = ManSource(name="m", kind="man", sections=(1,), names=("s*",), folders=("man",))
    assert paths(opened(source, tmp_path)) == ["man1/sbatch.1", "man1/squeue.1"]
    every = ManSource(name="m", kind="man", sections=(1, 5), folders=("man",), exclude=("ls.1",))
    assert paths(opened(every, tmp_path)) == [
        "man1/sbatch.1", "man1/squeue.1", "man1/verify.1", "man5/slurm.conf.5",
    ]  # fmt: skip


def test_first_folder_wins(manuals: Path, tmp_path: Path) -> None:
    (tmp_path / "own/man1").mkdir(parents=True)
    (tmp_path / "own/man1/sbatch.1").write_text(".TH own 1\n")
    source = ManSource(name="m", kind="man", pages=("sbatch.1",), folders=("own", "man"))
    assert [entry.read() for entry in opened(source, tmp_path)] == [b".TH own 1\n"]


def test_machine_without_manuals(tmp_path: Path) -> None:
    source = ManSource(name="m", kind="man", pages=("sbatch.1",), folders=("absent",))
    with pytest.raises(IngestError, match=r"no folder of man pages.*name their folders"):
        opened(source, tmp_path)


def test_manual_folders_come_from_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hpcllm.corpus.man_folders import manual_folders

    (tmp_path / "man").mkdir()
    fake = tmp_path / "manpath"
    fake.write_text(f"#!/bin/sh\necho {tmp_path}/man:{tmp_path}/absent\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert manual_folders() == [tmp_path / "man"]


def test_a_skipped_name_that_is_not_utf8_can_be_printed(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9.md")
    (tmp_path / name).write_text("# Queues\n", encoding="utf-8")
    (tmp_path / "link\udce9.md").symlink_to("nowhere")
    walk = FolderWalk(tmp_path)
    walk.run()
    assert walk.skipped == [
        ("caf\\xe9.md", "its name is not UTF-8: rename it"),
        ("link\\xe9.md", "a link that leads nowhere or in a circle"),
    ]
