from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest

from hpcllm.corpus.readers import manpage
from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.errors import IngestError

HEAD = '.TH jobrun 1 "2026-01-01" "Example 1.0" "Example Commands"\n'


def read(
    text: str | bytes,
    *,
    root: Path = Path("/nonexistent"),
    path: str = "man1/jobrun.1",
    **options: str,
) -> ReadResult:
    data = text.encode() if isinstance(text, str) else text
    return manpage.read(RawFile(path, data, root, options))


def body(text: str) -> str:
    return read(HEAD + ".SH OPTIONS\n" + text).text.removeprefix("## OPTIONS").strip()


def test_page_with_options_is_read_whole() -> None:
    result = read(
        HEAD
        + r""".\" a comment
.SH NAME
jobrun \- run a job
.SH SYNOPSIS
\fBjobrun\fR [\fIoptions\fR] \fIscript\fR
.br
\fBjobrun\fR \-\-help
.SH OPTIONS
.TP
\fB\-t\fR, \fB\-\-time\fR=<\fItime\fR>
Limit the run time.
The default is \fBone hour\fR.
.IP
A second paragraph.
.TP
.B \-\-quiet
Say nothing.
"""
    )
    assert result.title == "jobrun(1)"
    assert result.metadata == {
        "section": "1",
        "manual": "Example Commands",
        "description": "run a job",
    }
    assert (
        result.text
        == """\
## NAME

jobrun - run a job

## SYNOPSIS

```
jobrun [options] script
jobrun --help
```

## OPTIONS

**-t**, **--time**=<time> {#opt-time}
: Limit the run time. The default is **one hour**.

    A second paragraph.

**--quiet** {#opt-quiet}
: Say nothing."""
    )


def test_nested_items_stay_inside_their_option() -> None:
    text = body(
        r""".TP
\fB\-\-mail\fR=<type>
One of:
.RS
.TP
\fBBEGIN\fR
At the start.
.TP
\fBEND\fR
At the end.
.LP
Both may be given.
.RE
.IP
Still about mail.
.TP
\fB\-\-next\fR
Next.
"""
    )
    assert (
        text
        == """\
**--mail**=<type> {#opt-mail}
: One of:

    **BEGIN** {#opt-begin}
    : At the start.

    **END** {#opt-end}
    : At the end.

    Both may be given.

    Still about mail.

**--next** {#opt-next}
: Next."""
    )


def test_paragraph_macro_ends_the_item() -> None:
    assert body(".TP\n.B a\nText.\n.PP\nOutside.\n") == "**a** {#opt-a}\n: Text.\n\nOutside."


def test_preformatted_text_becomes_a_fence_with_hash_lines_intact() -> None:
    text = body("Example:\n.nf\n#!/bin/bash\n#SBATCH \\-\\-time=1\n\n  srun a\\\\b\n.fi\nDone.\n")
    assert text == "Example:\n\n```\n#!/bin/bash\n#SBATCH --time=1\n\n  srun a\\b\n```\n\nDone."


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"a\-b \(em c\(aqd\(aq \(bu \[u00E9] \['e] \e", "a-b — c'd' • é é \\"),
        (r"\s-1small\s+1 \s10x\s0 \m[red]red\m[] \h'2n'gap", "small x red gap"),
        (r"x\&y\|z\ w\~v\0u", "xyz w v u"),
        (r"the \fBbold\fR and \fIitalic\fP words", "the **bold** and *italic* words"),
        (r"\fB\-\-mem\fR=\fIsize\fR stays one word", "--mem=size stays one word"),
        (r"\f[B]bold\f[] \f(CWcode\fP", "**bold** code"),
        (r"kept \" dropped", "kept"),
        ("joined \\\nline", "joined line"),
        (r"unknown \> escape", "unknown > escape"),
    ],
)
def test_escapes(source: str, expected: str) -> None:
    assert body(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".B two words", "**two words**"),
        (".BR sbatch (1),", "sbatch(1),"),
        ('.IR "a b" c', "a bc"),
        (".B\nnext line\nplain", "**next line** plain"),
        (".MR sbatch 1 .", "sbatch(1)."),
        (".UR https://example.org\nthe site\n.UE .", "the site <https://example.org>."),
        (".if n shown\n.if t hidden", "shown"),
        (".ie t .B no\n.el .B yes", "**yes**"),
        (".if n \\{\\\nfirst\nsecond\n.\\}", "first second"),
        (".ds NM jobrun\n\\*(NM runs \\*[NM]", "jobrun runs jobrun"),
        (".de XX\n.B \\\\$1 \\\\$2\n..\n.XX a b", "**a b**"),
        (".ig\nhidden\n..\nshown", "shown"),
        ("one\n.br\ntwo", "one\ntwo"),
        (".unknown macro\ntext", "text"),
    ],
)
def test_macros(source: str, expected: str) -> None:
    assert body(source) == expected


def test_names_that_share_a_text_share_one_item() -> None:
    text = body(".TP\n.B Share\n.PD 0\n.TP\n.B Fairshare\n.PD\nThe shares.\n")
    assert text == "**Share** {#opt-share}\n**Fairshare** {#opt-fairshare}\n: The shares."


def test_bulleted_and_numbered_items_are_lists() -> None:
    assert body(".IP \\(bu 2\nfirst\n.IP \\(bu\nsecond\n") == "- first\n- second"
    assert body(".IP 1. 4\nfirst\n.IP 2.\nsecond\n") == "1. first\n2. second"


def test_sentence_as_tag_without_text_is_a_paragraph() -> None:
    text = body(".TP\nThe order is as follows:\n.IP\n.TP\n.B x\nText.\n")
    assert text == "The order is as follows:\n\n**x** {#opt-x}\n: Text."


def test_item_without_text_is_kept() -> None:
    assert body(".TP\n.B alone\n.SS Next\n") == "- **alone** {#opt-alone}\n\n### Next"


def test_table_has_its_first_row_as_header_and_text_blocks_in_cells() -> None:
    text = body(
        """.TS
allbox tab(@);
l l
l l.
Name@Meaning
_
a|b@T{
Several
.B words
here
T}
c@_
.TE
After.
"""
    )
    assert text == (
        "| Name | Meaning |\n| --- | --- |\n| a\\|b | Several **words** here |\n| c |  |\n\nAfter."
    )


def test_anchors_are_unique_and_follow_the_sites_pattern() -> None:
    page = HEAD + ".SH USE IT\n.TP\n\\fB\\-\\-Gres\\fR=x\nA.\n.TP\n\\fBGres\\fR\nB.\n"
    assert "{#opt-gres}\n: A." in read(page).text
    assert "{#opt-gres_1}\n: B." in read(page).text
    named = read(page, option_anchor="OPT_{name}", section_anchor="SECTION_{name}").text
    assert named.startswith("## USE IT {#SECTION_USE-IT}")
    assert "{#OPT_Gres}\n: A." in named
    assert "{#OPT_Gres_1}\n: B." in named


def test_include_is_followed_inside_the_root(tmp_path: Path) -> None:
    (tmp_path / "man1").mkdir()
    (tmp_path / "man1/real.1").write_text(HEAD + ".SH NAME\nreal text\n")
    result = read(".so man1/real.1\n", root=tmp_path, path="man1/alias.1")
    assert "real text" in result.text
    assert result.includes == ("man1/real.1",)


def test_missing_and_outside_includes_are_reported(tmp_path: Path) -> None:
    (tmp_path / "secret.1").write_text("secret")
    root = tmp_path / "man"
    root.mkdir()
    result = read(HEAD + ".so ../secret.1\n.SH A\nb\n", root=root)
    assert "secret" not in result.text
    assert result.warnings == ("include target ../secret.1 is missing",)


def test_page_that_includes_itself_ends(tmp_path: Path) -> None:
    (tmp_path / "loop.1").write_text(".so loop.1\n")
    result = read(".so loop.1\n", root=tmp_path, path="loop.1")
    assert "nest too deeply" in result.warnings[0]


def test_gzip_is_unpacked_and_damage_is_named() -> None:
    packed = gzip.compress((HEAD + ".SH NAME\nx \\- y\n").encode())
    assert read(packed).text == "## NAME\n\nx - y"
    with pytest.raises(IngestError, match="ends too early: fetch it again"):
        read(packed[:-20])
    with pytest.raises(IngestError, match="damaged gzip file"):
        read(packed[:12] + b"\xff\xff\xff" + packed[15:])
    with pytest.raises(IngestError, match="unpacks to more than 20 MB"):
        read(gzip.compress(b"." * 20_000_001))


def test_text_without_macros_is_refused() -> None:
    with pytest.raises(IngestError, match=r"expected .TH or .Dd.*suffix \.txt"):
        read("just text")


MDOC = """.Dd January 1, 2026
.Dt JOBRUN 1
.Os
.Sh NAME
.Nm jobrun
.Nd run a job
.Sh OPTIONS
.Bl -tag -width Ds
.It Fl q
Say nothing.
.El
"""


def test_mdoc_without_formatter_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(IngestError, match="install the package mandoc"):
        read(MDOC)


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
def test_mdoc_through_mandoc_keeps_items() -> None:
    result = read(MDOC)
    assert result.title == "jobrun(1)"
    assert result.text == (
        "## NAME\n\n`jobrun` — run a job\n\n## OPTIONS\n\n`-q` {#q}\n: Say nothing."
    )


def test_mdoc_through_groff_output_keeps_sections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/usr/bin/groff" if name == "groff" else None)
    monkeypatch.setattr(
        manpage, "_formatted", lambda *_: "NAME\n     jobrun - run\n\nOPTIONS\n     -q\n"
    )
    assert (
        read(MDOC).text
        == "## NAME\n\n```\n     jobrun - run\n```\n\n## OPTIONS\n\n```\n     -q\n```"
    )


def test_macros_and_strings_that_multiply_are_cut_short(tmp_path: Path) -> None:
    macros = "".join(f".de M{n}\n" + f".M{n + 1}\n" * 10 + "..\n" for n in range(8))
    strings = "".join(f".ds S{n} " + rf"\*(S{n + 1}" * 100 + "\n" for n in range(8))
    page = f".TH X 1\n{macros}{strings}.SH NAME\n.M0\n\\*(S0\n.SH END\nThe rest stays.\n"
    result = manpage.read(RawFile("x.1", page.encode(), tmp_path))
    assert "The rest stays." in result.text
    assert "more than 20000 macro calls: the rest was left out" in result.warnings
