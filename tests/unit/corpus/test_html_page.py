from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.corpus.readers import html_page
from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.generated import looks_generated
from hpcllm.errors import IngestError


def read(html: str | bytes, path: str = "page.html") -> ReadResult:
    data = html.encode() if isinstance(html, str) else html
    return html_page.read(RawFile(path, data, Path("/nonexistent")))


def text(html: str) -> str:
    return read(html).text


def test_body_from_server_side_includes() -> None:
    result = read(
        """<!--#include virtual="header.txt"-->
<h1>Jobs</h1>
<h2 id="start">Starting<a class="slurm_link" href="#start"></a></h2>
<P>Use <B>sbatch</B> with
<I>--gres</I>.</P></P>
<PRE>
#!/bin/bash
#SBATCH --time=1
</PRE>
<DL><DT><I>--mem</I></DT><DD>Memory</DD><DT>a</DT><DT>b</DT><DD>Two<P>more</P></DD></DL>
<!--#include virtual="footer.txt"-->"""
    )
    assert result.title == "Jobs"
    assert (
        result.text
        == """\
# Jobs

## Starting {#start}

Use **sbatch** with *--gres*.

```
#!/bin/bash
#SBATCH --time=1
```

*--mem*
: Memory

a
b
: Two

    more"""
    )


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<h2><a name='old'>Title</a></h2>", "## Title {#old}"),
        ("<a name='before'></a><h2>Title</h2>", "## Title {#before}"),
        ("<p>text</p><p><a name='x'></a></p><h3>T</h3>", "text\n\n### T {#x}"),
        ("<section id='s'><h2>Title</h2><p>x</p></section>", "## Title {#s}\n\nx"),
        ("<div class='section' id='s'><span id='l'></span><h2>T</h2></div>", "## T {#s}"),
        ("<h2 id='own'><a name='inner'>T</a></h2>", "## T {#own}"),
        ("<a name='x'></a><ul><li>a</li></ul><h2>T</h2>", "- a\n\n## T"),
        ("<dl><dt id='t'>Term</dt><dd>Text</dd></dl>", "Term {#t}\n: Text"),
        ("<dl><dt><a name='t'></a>Term</dt><dd>Text</dd></dl>", "Term {#t}\n: Text"),
    ],
)
def test_anchors(html: str, expected: str) -> None:
    assert text(html) == expected


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ('<a href="a.html#b">the  page</a>', "[the page](a.html#b)"),
        ('<a href="https://x.org/">https://x.org/</a>', "https://x.org/"),
        ('<a href="javascript:go()">go</a>', "go"),
        ("a<br>b", "a\nb"),
        ("10<sup>6</sup> and H<sub>2</sub>O", "10^6 and H2O"),
        ("<code>a`b</code> <tt>x y</tt>", "`` a`b `` `x y`"),
        ('see <code><a href="x.html">sbatch</a></code>', "see [`sbatch`](x.html)"),
        ("<b> spaced </b>text", "**spaced** text"),
        ("<b></b><i> </i>x", "x"),
        ('<img src="a.png" alt="yes"> <img alt="logo.png">', "yes"),
        ("x<script>alert(1)</script><style>p{}</style><!-- c -->y", "xy"),
        ("<p># not a heading</p>", "\\# not a heading"),
        ("&lt;time&gt; &amp; &nbsp; é", "<time> & é"),
        ('<ul><li><input type="checkbox" checked> done</li></ul>', "- [x] done"),
    ],
)
def test_inline(html: str, expected: str) -> None:
    assert text(html) == expected


def test_lists_nest_and_keep_their_numbers() -> None:
    html = """<ol start="3"><li>three<ul><li>a</li><li>b</li></ul></li>
    <li><p>four</p><pre>code</pre></li></ol>"""
    assert text(html) == "3. three\n\n   - a\n   - b\n\n4. four\n\n   ```\n   code\n   ```"


def test_list_with_lists_between_items() -> None:
    assert text("<ul><li>a</li><ul><li>b</li></ul>stray</ul>") == "- a\n\n  - b\n\n  stray"


def test_table_cells_keep_header_spans_and_pipes() -> None:
    html = """<table><caption>Limits</caption>
    <tr><th>Queue</th><th>Hours</th><th>Note</th></tr>
    <tr><td rowspan=2>short</td><td>2</td><td>a|b<br>c</td></tr>
    <tr><td>4</td><td><ul><li>x</li><li>y</li></ul></td></tr>
    <tr><td colspan=2>all</td><td>z</td></tr></table>"""
    assert (
        text(html)
        == """\
Limits

| Queue | Hours | Note |
| --- | --- | --- |
| short | 2 | a\\|b c |
| short | 4 | x; y |
| all |  | z |"""
    )


def test_table_without_header_cells_and_with_row_headers() -> None:
    assert text(
        "<table><tr><td><b>A</b></td><td><b>B</b></td></tr><tr><td>1</td><td>2</td></tr></table>"
    ) == ("| **A** | **B** |\n| --- | --- |\n| 1 | 2 |")
    assert text(
        "<table><tr><th>CPU</th><td>64</td></tr><tr><th>RAM</th><td>1 TB</td></tr></table>"
    ) == ("|  |  |\n| --- | --- |\n| CPU | 64 |\n| RAM | 1 TB |")


def test_two_header_rows_become_one() -> None:
    html = """<table><thead><tr><th rowspan=2>Node</th><th colspan=2>Memory</th></tr>
    <tr><th>min</th><th>max</th></tr></thead><tbody><tr><td>n1</td><td>1</td><td>2</td></tr></table>"""
    assert text(html) == "| Node | Memory min | max |\n| --- | --- | --- |\n| n1 | 1 | 2 |"


def test_layout_table_is_taken_apart() -> None:
    html = "<table><tr><td><h2>A</h2><p>x</p></td><td><pre>1\n2</pre></td></tr></table>"
    assert text(html) == "**A**\n\nx\n\n```\n1\n2\n```"


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ('<div class="highlight-bash"><div class="highlight"><pre>x</pre></div></div>', "bash"),
        ('<pre><code class="language-python">x</code></pre>', "python"),
        ('<pre class="code bash">x</pre>', "bash"),
        ('<div class="highlight-default"><pre>x</pre></div>', ""),
        ('<table class="highlighttable"><tr><td class="linenos"><pre>1</pre></td>'
         '<td class="code"><div class="highlight"><pre>x</pre></div></td></tr></table>', ""),
        ('<div class="highlight"><pre><span class="linenos">1</span>x</pre></div>', ""),
    ],
)  # fmt: skip
def test_code_language_and_line_numbers(html: str, language: str) -> None:
    assert text(html) == f"```{language}\nx\n```"


def test_code_keeps_indentation_backticks_and_breaks() -> None:
    assert text("<pre>  a<br>\t<b>b</b> ``` c</pre>") == "````\n  a\n        b ``` c\n````"


CHROME = "<nav>Home Products</nav><footer>Imprint 2026</footer>"


@pytest.mark.parametrize(
    "page",
    [
        '<div class="sphinxsidebar">menu</div><div class="document"><div class="body" role="main">'
        '{}'
        '<a class="headerlink" href="#x">¶</a></div></div><div class="related">next</div>',
        '<header class="md-header">Site</header><main><div class="md-sidebar">menu</div>'
        '<article class="md-content__inner md-typeset"><a class="md-content__button">edit</a>{}'
        '</article></main>',
        '<div id="dokuwiki__header">wiki</div><div id="dokuwiki__content"><div class="page">'
        '<div id="dw__toc">toc</div>{}<div class="secedit">Edit</div></div></div>',
        '<div id="mw-navigation">tools</div><div id="content"><div id="mw-content-text">{}'
        '<span class="mw-editsection">[edit]</span></div><div class="catlinks">cats</div></div>',
        '<div id="main"><div id="main-content" class="wiki-content">{}</div>'
        '<div id="likes-and-labels-container">likes</div></div>',
        '<div class="region-header">x</div><main><article><div class="node__content">{}</div>'
        '</article></main>',
        '<div id="sidebar">chapters</div><div id="content"><main>{}</main></div>',
        '<div class="cookie-banner">We use cookies</div><div><div id="content">{}</div></div>',
        '<div id="cookieConsent">Accept all</div><div>{}</div>',
    ],
)  # fmt: skip
def test_main_content_of_publishing_systems(page: str) -> None:
    content = "<h1>Queues</h1><p>The short queue allows two hours and sixty-four cores a job.</p>"
    html = f"<html><body>{CHROME}{page.format(content)}</body></html>"
    assert text(html) == (
        "# Queues\n\nThe short queue allows two hours and sixty-four cores a job."
    )


def test_small_article_does_not_hide_a_page() -> None:
    words = "word " * 50
    assert text(f"<div><p>{words}</p><article>teaser</article></div>").startswith("word word")


def test_page_about_cookies_is_kept() -> None:
    assert "word" in text(f'<div id="cookie-notice"><p>{"word " * 200}</p></div>')


def test_heading_that_is_not_closed_does_not_swallow_the_page() -> None:
    assert text("<h4>Title<h4><table><tr><td>a</td><td>b</td></tr></table>") == (
        "#### Title\n\n| a | b |\n| --- | --- |"
    )


def test_tabs_keep_their_labels() -> None:
    html = """<div class="tabbed-set"><input type="radio"><div class="tabbed-labels">
    <label>Puma</label><label>Lynx</label></div><div class="tabbed-content">
    <div class="tabbed-block"><p>one</p></div><div class="tabbed-block"><p>two</p></div>
    </div></div>"""
    assert text(html) == "**Puma**\n\none\n\n**Lynx**\n\ntwo"


def test_title_language_and_metadata() -> None:
    result = read(
        '<html lang="pt_BR"><head><title>Filas | Centro</title>'
        '<meta name="description" content="Sobre  filas"></head><body><p>x</p></body></html>'
    )
    assert (result.title, result.language) == ("Filas", "pt-BR")
    assert result.metadata == {"description": "Sobre filas"}
    assert read("<p>x</p>", "a/jobs.html").title == "jobs"


def test_redirect_says_where_to() -> None:
    html = '<meta http-equiv="refresh" content="0; URL=\'/en/latest\'"><p>Moved</p>'
    assert text(html) == "Moved\n\nThis page has moved to /en/latest."


def test_page_without_text_warns() -> None:
    result = read("<html><body><script>draw()</script></body></html>")
    assert result.text == ""
    assert result.warnings == ("the page holds no text",)


def test_deep_nesting_is_flattened_not_fatal() -> None:
    result = read("<div>" * 3000 + "deep" + "</div>" * 3000)
    assert result.text == "deep"
    assert "nest more than" in result.warnings[0]
    assert "deep" in text("<b><i>" * 2000 + "deep")


def test_binary_is_refused() -> None:
    with pytest.raises(IngestError, match="looks like a binary file"):
        read(b"\x89PNG\0\0\0\rIHDR")


def test_generated_references_are_recognised() -> None:
    path = '<li><a>.components.schemas["v0.0.{}_job"].properties</a></li>\n'
    schema = "<h1>API</h1>" + "".join(path.format(n) for n in range(80))
    assert read(schema).status == "generated"
    assert looks_generated('<meta name="generator" content="Doxygen 1.9"/>')
    assert looks_generated("\n".join(f"/api/v{n}/field_{n}: integer" for n in range(2000)))


def test_pages_for_people_are_not_generated() -> None:
    prose = "\n".join(
        f"Sentence {n} speaks of topic {'abcdefghij'[n % 10] * (n % 37)}" for n in range(300)
    )
    assert not looks_generated(prose)
    assert not looks_generated('curl -H "Content-Type: application/json" URL\n' + prose)


def test_a_bold_line_with_an_anchor_begins_a_section() -> None:
    assert (
        text(
            """<h1>FAQ</h1><h2>Users</h2>
<p><a id="pending"><b>Why is my job <i>not</i> running?</b></a><br>
See the reason.</p><p>It is in <tt>squeue</tt>.</p>
<p><a name="old"></a><strong>Old pages</strong><br/>They write so.</p>
<p><b>How do I log in?</b></p><p>With ssh.</p>
<h2>Staff</h2>"""
        )
        == """\
# FAQ

## Users

### Why is my job *not* running? {#pending}

See the reason.

It is in `squeue`.

### Old pages {#old}

They write so.

### How do I log in?

With ssh.

## Staff"""
    )


@pytest.mark.parametrize(
    "html",
    [
        "<p><b>Note</b><br>Nothing leads here.</p>",
        "<p><a id='x'><b>Bold</b> and plain</a><br>text</p>",
        "<p><a id='x'><b>Bold</b></a> goes on in the line.</p>",
        "<ul><li><p><a id='x'><b>In a list?</b></a><br>text</p></li></ul>",
        f"<p><a id='x'><b>{'Long ' * 50}</b></a><br>text</p>",
    ],
)
def test_other_bold_beginnings_stay_text(html: str) -> None:
    assert "#" not in text(f"<h1>Title</h1>{html}").removeprefix("# Title")
