from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest

from hpcllm.ui.rendering import (
    Style,
    clean_text,
    one_line,
    render_markdown,
    render_text,
    safe_link,
)

HOSTILE = Path(__file__).parents[2] / "data" / "ui" / "hostile.md"
KNOWN = frozenset({"docs.meridian.example"})
STYLE = Style(cite_prefix="s-", cited=frozenset({1, 2}), known_hosts=KNOWN, copy_label="Copy")


class Reader(HTMLParser):
    """Collects what a browser would make of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    reader.close()
    return reader


class TestHostileText:
    @pytest.fixture
    def page(self) -> Reader:
        return read(render_markdown(HOSTILE.read_text(encoding="utf-8"), STYLE))

    def test_leaves_no_tag_that_could_run_load_or_cover_anything(self, page: Reader) -> None:
        assert set(page.tags) <= {
            *("p", "a", "code", "pre", "figure", "figcaption", "span", "button", "div"),
            *("table", "thead", "tbody", "tr", "th", "td"),
        }

    def test_leaves_no_handler_and_no_style(self, page: Reader) -> None:
        names = {name for name, _ in page.attributes}
        assert names <= {"href", "class", "target", "rel", "aria-label", "type", "tabindex"}

    def test_leaves_links_to_known_hosts_and_to_sources_alone(self, page: Reader) -> None:
        targets = {value for name, value in page.attributes if name == "href"}
        assert targets == {"https://docs.meridian.example/partitions/"}

    def test_shows_what_it_took_out_as_text(self, page: Reader) -> None:
        assert "<script>window.PWNED = 1</script>" in page.text
        assert '<form action="https://evil.example/">' in page.text
        assert "\u202e" not in page.text

    @pytest.mark.parametrize("end", range(0, 2000, 97))
    def test_is_harmless_wherever_it_is_cut(self, end: int) -> None:
        page = read(render_markdown(HOSTILE.read_text(encoding="utf-8")[:end], STYLE))
        assert not {"script", "img", "iframe", "form", "svg", "style"} & set(page.tags)


@pytest.mark.parametrize(
    "target",
    [
        "javascript:alert(1)",
        "//docs.meridian.example/a",
        "https://docs.meridian.example@evil.example/",
        "https://user@docs.meridian.example/",
        "https:\\\\docs.meridian.example\\a",
        "https://docs.meridian.example.evil.example/",
        "ftp://docs.meridian.example/",
        "http://[bad",
        "",
    ],
)
def test_addresses_that_may_lead_elsewhere_are_no_links(target: str) -> None:
    assert safe_link(target, KNOWN) is None


def test_a_known_host_is_known_in_any_case_and_with_a_port() -> None:
    assert safe_link("https://DOCS.meridian.example:8443/a", KNOWN) is not None


def test_marks_become_links_where_there_is_a_source() -> None:
    html = render_markdown("Quota [1, 2]. Other [3]. `[1]`", STYLE)
    assert html.count('class="hl-cite"') == 2
    assert 'href="#s-1"' in html and 'href="#s-2"' in html
    assert "Other [3]" in html and "<code>[1]</code>" in html


def test_a_mark_cannot_be_faked_by_a_link_or_a_definition() -> None:
    html = render_markdown("See [1](https://evil.example/).\n\n[1]: https://evil.example/", STYLE)
    assert "evil" not in html


def test_marks_stay_text_where_nothing_is_cited() -> None:
    assert render_markdown("Quota [1].") == "<p>Quota [1].</p>\n"


def test_code_is_shown_as_it_stands_with_a_button() -> None:
    html = render_markdown('```bash\nsbatch --gres=gpu:1 "$FILE" <x>\n```', STYLE)
    assert "sbatch --gres=gpu:1 " in html and "&lt;x&gt;" in html
    assert '<button type="button" class="hl-copy-code">Copy</button>' in html
    assert "<span>bash</span>" in html


def test_words_with_hyphens_in_code_are_kept_whole_and_their_text_is_unchanged() -> None:
    html = render_markdown("`sbatch --gres=gpu:1  <x-y>`")
    assert '<code>sbatch <span class="hl-word">--gres=gpu:1</span>' in html
    assert '<span class="hl-word">&lt;x-y&gt;</span></code>' in html
    assert unescape(re.sub(r"<[^>]+>", "", html)).strip() == "sbatch --gres=gpu:1  <x-y>"


def test_a_table_can_be_scrolled_with_the_keyboard() -> None:
    html = render_markdown("| a | b |\n|---|---|\n| 1 | 2 |")
    assert '<div class="hl-table" tabindex="0"><table>' in html


def test_a_paragraph_of_marks_belongs_to_the_code_above() -> None:
    html = render_markdown("```\nls\n```\n[1]\n\ntext [1]", STYLE)
    assert html.count('class="hl-marks"') == 1


def test_headings_go_below_those_of_the_page_and_keep_their_anchors() -> None:
    html = render_markdown("# Use {#use-it}\n\n## Two A100", Style(has_anchors=True))
    assert '<h3 id="use-it">Use</h3>' in html
    assert '<h4 id="two-a100">Two A100</h4>' in html


def test_definition_terms_keep_their_anchors() -> None:
    html = render_markdown("`--mem` {#opt-mem}\n: Memory per node.", Style(has_anchors=True))
    assert '<dt id="opt-mem"><code><span class="hl-word">--mem</span></code></dt>' in html


def test_relative_links_are_asked_for() -> None:
    style = Style(resolve=lambda target: f"/pages/{target}" if target == "a.md" else None)
    html = render_markdown("[a](a.md) [b](b.md) [c](javascript:x)", style)
    assert 'href="/pages/a.md"' in html
    assert html.count("<a ") == 1 and "b" in html


def test_one_line_means_the_same_and_has_no_line_ends() -> None:
    html = one_line("<pre>" + render_text("a\n\n# b") + "</pre>")
    assert "\n" not in html
    assert read(html).text == "a\n\n# b"


def test_control_characters_and_line_ends_are_cleaned() -> None:
    assert clean_text("a\r\nb\rc\x00\x1b[31m\u2066d") == "a\nb\nc[31md"
