"""What single dialects of Markdown, reStructuredText and HTML add, read by the whole reader."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from hpcllm.corpus.readers import RawFile, ReadResult, read
from hpcllm.corpus.readers.blocks import plain
from hpcllm.corpus.readers.rst_inline import EndPattern

if TYPE_CHECKING:
    from pathlib import Path


class Page(Protocol):
    def __call__(self, name: str, text: str, /, **more: Any) -> ReadResult: ...


@pytest.fixture
def read_page(tmp_path: Path) -> Page:
    def make(
        name: str, text: str, /, files: dict[str, str] | None = None, **options: Any
    ) -> ReadResult:
        for path, content in (files or {}).items():
            target = tmp_path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(content))
        return read(RawFile(name, textwrap.dedent(text).encode(), tmp_path, options))

    return make


def test_terms_that_share_a_definition_stay_terms(read_page: Page) -> None:
    result = read_page("a.md", "# T\n\n`-t`\n`--time`\n: Longest run time.\n\nAfter.\n")
    assert result.text == "# T\n\n`-t`\n`--time`\n: Longest run time.\n\nAfter."


def test_terms_in_an_html_island_share_their_definition(read_page: Page) -> None:
    result = read_page("a.md", "# T\n\n<dl><dt>one</dt><dt>two</dt><dd>both</dd></dl>\n")
    assert result.text == "# T\n\none\ntwo\n: both"


@pytest.mark.parametrize(
    "block",
    [
        "- item\n- other\n: not a definition",
        "```\na\nb\n: c\n```",
        "    code\n    more\n    : even more",
        "\n".join(f"prose line {n}" for n in range(9)) + "\n: aside",
    ],
)
def test_a_colon_below_other_blocks_joins_nothing(read_page: Page, block: str) -> None:
    text = read_page("a.md", f"# T\n\n{block}\n").text
    assert "\ue001" not in text
    for line in block.split("\n"):
        assert line.strip("- :") in text


def test_a_definition_of_three_names_in_html(read_page: Page) -> None:
    result = read_page("a.html", "<h1>T</h1><dl><dt>a<dt>b<dt>c<dd>all</dl>")
    assert result.text == "# T\n\na\nb\nc\n: all"


def test_cells_beyond_the_header_are_kept(read_page: Page) -> None:
    result = read_page(
        "a.md", "# T\n\n| a | b |\n|---|---|\n| 1 | `x|y` | three | |\n| 4 | | | | |\n"
    )
    assert result.text.split("\n")[2:] == [
        "| a | b |  |",
        "| --- | --- | --- |",
        "| 1 | `x\\|y` | three |",
        "| 4 |  |  |",
    ]


def test_a_comment_below_a_table_is_no_row(read_page: Page) -> None:
    text = "# T\n\n| a | b |\n|---|---|\n| 1 | 2 |\n<!-- gone: | 3 | 4 | 5 | -->\n"
    assert read_page("a.md", text).text == "# T\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"


def test_a_list_table_with_uneven_rows_stays_a_table(read_page: Page) -> None:
    text = """\
        T
        =

        .. list-table::
           :header-rows: 1
           :widths: 10 90

           * - a
             - b
           * - 1
             - 2
             - three
        """
    result = read_page("a.rst", text)
    assert result.text == "# T\n\n| a | b |  |\n| --- | --- | --- |\n| 1 | 2 | three |"
    assert result.warnings == ()


def test_myst_labels_become_the_anchor_of_their_heading(read_page: Page) -> None:
    text = "(my_top)=\n# Title\n\n(first)=\n(second)=\n\n## Deep\n\n(aside)=\nA paragraph.\n"
    result = read_page("a.md", text)
    assert result.text == "# Title {#my-top}\n\n## Deep {#first}\n\nA paragraph."


def test_a_line_in_brackets_with_an_equals_sign_in_code_is_no_label(read_page: Page) -> None:
    assert "(a)=" in read_page("a.md", "# T\n\n```\n(a)=\n```\n").text


def test_myst_glossary(read_page: Page) -> None:
    terms = "node\nhost\n  A computer\n  of the cluster.\n\ncore\n  One unit.\n"
    text = f"# T\n\n```{{glossary}}\n{terms}```\n"
    result = read_page("a.md", text)
    assert result.text == (
        "# T\n\nnode\nhost\n: A computer\n    of the cluster.\n\ncore\n: One unit."
    )


def test_myst_substitutions_of_page_and_site(read_page: Page) -> None:
    conf = "import os\nmyst_substitutions = {'site': 'Meridian', 'cmd': 'srun'}\n"
    front = "---\nmyst:\n  substitutions:\n    cmd: sbatch\n---\n"
    text = front + "# T\n\n{{ site }}: {{ cmd }} `{{ cmd }}`\n"
    result = read_page("a.md", text, files={"conf.py": conf})
    assert result.text == "# T\n\nMeridian: sbatch `{{ cmd }}`"
    assert result.warnings == ()


def test_braces_stay_where_no_substitution_is_defined(read_page: Page) -> None:
    assert read_page("a.md", "# T\n\nUse {{ name }}.\n").text == "# T\n\nUse {{ name }}."


def test_sphinx_settings_fill_the_version_and_the_prolog(read_page: Page) -> None:
    conf = (
        "version = '2.1'\nrelease = version + '.3'\nrst_prolog = '.. |site| replace:: Meridian'\n"
    )
    result = read_page(
        "a.rst", "T\n=\n\n|site| runs |version|, |release|.\n", files={"conf.py": conf}
    )
    assert result.text == "# T\n\nMeridian runs 2.1, release."


def test_a_broken_sphinx_configuration_is_passed_over(read_page: Page) -> None:
    assert read_page("a.rst", "T\n=\n\nx\n", files={"conf.py": "version = (\n"}).text == "# T\n\nx"


def test_jekyll_data_files_and_the_data_option(read_page: Page) -> None:
    files = {
        "_config.yml": "title: Lesson\n",
        "_data/sched.yml": "name: Slurm\n",
        "_data/site/limits.json": '{"hours": 48}',
        "_data/people.yml": "- name: Ann\n- name: Bo\n",
        "_data/queues.csv": "name,hours\nshort,2\nlong,48\n",
        "extra.json": '{"gpu": 4}',
    }
    text = """\
        # T

        {{ site.data.sched.name }}, {{ site.data.site.limits.hours }} h, {{ site.data.x.gpu }} GPUs

        {% for p in site.data.people %}- {{ p.name }}
        {% endfor %}{% for q in site.data.queues %}- {{ q.name }}: {{ q.hours }}
        {% endfor %}"""
    result = read_page("a.md", text, files=files, data={"x": "extra.json"})
    assert result.text == "# T\n\nSlurm, 48 h, 4 GPUs\n\n- Ann\n- Bo\n- short: 2\n- long: 48"
    assert result.warnings == ()


@pytest.mark.parametrize(
    "address",
    [
        "https://img.shields.io/badge/license-MIT-blue.svg",
        "https://github.com/o/r/actions/workflows/ci.yml/badge.svg",
        "https://readthedocs.org/projects/x/badge/?version=latest",
        "https://zenodo.org/badge/DOI/10.5281/zenodo.1.svg",
        "https://codecov.io/gh/o/r/branch/main/graph/badge.svg",
        "//badge.fury.io/py/x.svg",
    ],
)
def test_badges_leave_no_text(read_page: Page, address: str) -> None:
    markdown = f"# T\n\n[![Build]({address})](https://x.example) Text.\n"
    assert read_page("a.md", markdown).text == "# T\n\nText."
    rst = f"T\n=\n\n.. image:: {address}\n   :alt: Build\n   :target: https://x.example\n\nText.\n"
    assert read_page("a.rst", rst).text == "# T\n\nText."
    html = f'<h1>T</h1><p><a href="https://x.example"><img alt="Build" src="{address}"></a>Text.'
    assert read_page("a.html", html).text == "# T\n\nText."


def test_figures_that_are_no_badges_stay(read_page: Page) -> None:
    assert read_page("a.md", "# T\n\n![Badge desk](img/badge.svg)\n").text == (
        "# T\n\n[Figure: Badge desk]"
    )


def test_a_rubric_is_a_bold_line_within_its_section(read_page: Page) -> None:
    result = read_page("a.rst", "T\n=\n\nSec\n---\n\n.. rubric:: Notes on ``x``\n\nbody\n")
    assert result.text == "# T\n\n## Sec\n\n**Notes on x**\n\nbody"


@pytest.mark.parametrize(
    ("classes", "language"),
    [("code bash", "bash"), ("code file python", "python"), ("file", ""), ("code", "")],
)
def test_dokuwiki_code_and_file_blocks_keep_their_language(
    read_page: Page, classes: str, language: str
) -> None:
    result = read_page("a.html", f'<h1>T</h1><pre class="{classes}">x = 1</pre>')
    assert result.text == f"# T\n\n```{language}\nx = 1\n```"


def test_a_page_that_includes_itself_says_so(read_page: Page) -> None:
    text = "T\n=\n\nbefore\n\n.. include:: a.rst\n\nafter\n"
    result = read_page("a.rst", text, files={"a.rst": text})
    assert result.text == "# T\n\nbefore\n\nafter"
    assert result.warnings == ("line 6: a.rst includes itself: the include was left out",)


def test_two_pages_that_include_each_other_end(read_page: Page) -> None:
    text = "T\n=\n\n.. include:: b.rst\n"
    files = {"a.rst": text, "b.rst": "In b.\n\n.. include:: a.rst\n"}
    result = read_page("a.rst", text, files=files)
    assert result.text == "# T\n\nIn b."
    assert result.warnings == ("b.rst: line 3: a.rst includes itself: the include was left out",)


def test_a_page_may_show_its_own_source_and_include_a_part_twice(read_page: Page) -> None:
    text = "T\n=\n\n.. include:: p.rst\n\n.. include:: p.rst\n\n.. include:: a.rst\n   :literal:\n"
    result = read_page("a.rst", text, files={"a.rst": "source", "p.rst": "part"})
    assert result.text == "# T\n\npart\n\npart\n\n```\nsource\n```"
    assert result.warnings == ()


def test_a_snippet_that_includes_itself_is_put_in_once(read_page: Page) -> None:
    files = {"_config.yml": "", "b.md": 'in b\n\n--8<-- "b.md"\n'}
    result = read_page("a.md", '# T\n\n--8<-- "b.md"\n', files=files)
    assert result.text == "# T\n\nin b"
    assert result.warnings == ("line 3: snippet b.md includes itself: it was left out",)


def test_a_markdown_page_that_includes_itself_says_so(read_page: Page) -> None:
    text = '# T\n\n--8<-- "a.md"\n\nafter\n'
    result = read_page("a.md", text, files={"a.md": text})
    assert result.text == "# T\n\nafter"
    assert "a.md includes itself: the include was left out" in result.warnings


def test_openings_that_are_never_closed_are_text(read_page: Page) -> None:
    assert (
        read_page("a.md", "# T\n\n" + "{% a {{ b " * 50, templates="jinja").text.count("{%") == 50
    )
    text = read_page("a.rst", "T\n=\n\n" + "*a |b `c " * 50).text
    assert [text.count(word) for word in ("*a", "|b", "`c")] == [50, 50, 50]


def test_a_literal_that_is_never_closed_keeps_its_marks(read_page: Page) -> None:
    assert read_page("a.rst", "T\n=\n\nType ``make now.\n").text == "# T\n\nType ``make now."


def test_the_end_of_markup_is_not_looked_for_again_in_the_same_paragraph() -> None:
    class Counting:
        searches = 0

        def search(self, text: str) -> None:
            self.searches += 1

    counting = Counting()
    pattern = EndPattern(counting)
    assert [pattern.search("a"), pattern.search("b"), pattern.search("c")] == [None, None, None]
    assert counting.searches == 1


def test_markup_is_found_again_in_the_next_paragraph(read_page: Page) -> None:
    assert read_page("a.rst", "T\n=\n\n*a b\n\nc *d* e\n").text == "# T\n\n*a b\n\nc *d* e"


def test_elements_nested_past_all_sense_keep_their_text(read_page: Page) -> None:
    result = read_page("a.html", "<h1>T</h1>" + "<div>x" * 3000 + "</div>" * 3000 + "<p>after</p>")
    words = result.text.split()
    assert words.count("x") == 3000
    assert result.text.endswith("\n\nafter")


def test_the_text_of_a_definition_may_be_aligned_by_any_number_of_spaces(read_page: Page) -> None:
    result = read_page("a.md", "# T\n\nCPU\n:      or simply *processor*\n       of a node.\n")
    assert result.text == "# T\n\nCPU\n: or simply *processor*\n    of a node."


def test_text_after_a_group_of_tabs_links_to_its_own_section(read_page: Page) -> None:
    result = read_page("a.md", '# T\n\n## Use\n\n=== "North"\n    x\n\nAfter.\n', templates="none")
    assert result.text.endswith("### North {#use}\n\nx\n\n## Use {#use}\n\nAfter.")


def test_an_icon_in_a_heading_is_no_part_of_its_name(read_page: Page) -> None:
    text = '# T\n\n## Browser <img src="b.png" alt="Browser Icons">\n\nx\n'
    assert read_page("a.md", text).text == "# T\n\n## Browser\n\nx"


def test_links_back_to_a_reference_leave_no_text(read_page: Page) -> None:
    html = '<h1>T</h1><ol><li id="fn1">One task. <a href="#ref1">\u21a9\ufe0e</a></li></ol>'
    assert read_page("a.html", html).text == "# T\n\n1. One task."


def test_substitutions_in_code_and_labels_where_the_site_asks_for_them(read_page: Page) -> None:
    text = """\
        .. |part| replace:: gpu
        .. |name| replace:: NetLogo

        T
        =

        .. sidebar:: |name|

           Fast.

        .. code-block:: bash
           :substitutions:

           squeue -p |part| | grep |gone|

        .. code-block:: {command}

           a |part| b
        """
    assert read_page("a.rst", text).text == (
        "# T\n\n**NetLogo:**\n\nFast.\n\n```bash\nsqueue -p gpu | grep |gone|\n```\n\n"
        "```\na |part| b\n```"
    )


def test_many_brackets_that_are_no_links_are_text(read_page: Page) -> None:
    assert read_page("a.md", "# T\n\n[a [b](c.md) d]\n").text == "# T\n\n[a [b](c.md) d]"
    assert plain("[a [b](c.md) d]") == "[a b d]"
