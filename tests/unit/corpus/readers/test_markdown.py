from __future__ import annotations

import textwrap
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.front_matter import split_front_matter
from hpcllm.corpus.readers.markdown import read

if TYPE_CHECKING:
    from pathlib import Path


class Page(Protocol):
    def __call__(
        self, text: str, *, path: str = ..., files: dict[str, str] = ..., **options: Any
    ) -> ReadResult: ...


@pytest.fixture
def page(tmp_path: Path) -> Page:
    root = tmp_path / "source"
    root.mkdir()

    def make(
        text: str,
        *,
        path: str = "docs/page.md",
        files: dict[str, str] | None = None,
        **options: Any,
    ) -> ReadResult:
        for name, content in (files or {}).items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(content))
        return read(RawFile(path, textwrap.dedent(text).encode(), root, options))

    return make


def body(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def check(result: ReadResult, expected: str) -> None:
    assert result.text.strip("\n") == body(expected)


def test_plain_markdown_comes_out_canonical(page: Page) -> None:
    result = page(
        """\
        Queues
        ======

        Jobs *wait* in __queues__; see [limits][l] and <https://example.org/>.

        * short
            * two hours
        * long

        1) log in
        2) run `sinfo`

        | queue | hours
        |:-----:|------
        | short | 2
        | `a|b` | 3

        [l]: limits.md
        """
    )
    assert result.title == "Queues"
    check(
        result,
        """\
        # Queues

        Jobs *wait* in **queues**; see [limits](limits.md) and https://example.org/.

        - short
          - two hours
        - long

        1. log in
        2. run `sinfo`

        | queue | hours |
        | --- | --- |
        | short | 2 |
        | `a\\|b` | 3 |
        """,
    )


@pytest.mark.parametrize("prefix", ["", "1. step\n\n", "!!! note\n", '=== "A"\n'])
def test_code_is_byte_identical_in_every_container(page: Page, prefix: str) -> None:
    code = 'if [ "$a" ]; then\n\n\t\techo "{{ x }} ${b}"  \n    fi # `x` <b> !!! note'
    indent = "    " if prefix else ""
    fence = "\n".join(indent + line for line in ["```bash", *code.split("\n"), "```"])
    result = page(f"# T\n\n{prefix}{fence}\n\nafter\n")
    assert f"\n```bash\n{code}\n```\n" in result.text


def test_a_fence_indented_deeper_than_its_container_is_code(page: Page) -> None:
    result = page("# T\n\nText:\n\n      ```sh\n      $ ls\n        a\n      ```\n")
    check(result, "# T\n\nText:\n\n```sh\n$ ls\n  a\n```")


def test_code_interrupts_a_numbered_list_and_the_numbers_go_on(page: Page) -> None:
    result = page("# T\n\n1. load\n\n    ```\n    module load x\n    ```\n\n2. run\n   - fast\n")
    check(result, "# T\n\n1. load\n\n```\nmodule load x\n```\n\n2. run\n   - fast")


def test_front_matter_is_metadata_and_its_facts_are_text(page: Page) -> None:
    result = page(
        """\
        ---
        description: Makes meshes
        tags: [cfd, free]
        hide: [toc]
        catalog:
          name: Mesher
          license_type: Free
          available_on: [North, South]
        objectives:
          - "Know how a mesh is made."
        ---
        # Mesher tool

        Text.
        """
    )
    assert result.title == "Mesher tool"
    assert result.metadata["description"] == "Makes meshes"
    assert result.metadata["tags"] == "cfd, free"
    assert result.metadata["hide"] == "toc"
    check(
        result,
        """\
        # Mesher tool

        - Name: Mesher
        - License type: Free
        - Available on: North, South

        **Objectives:**

        - Know how a mesh is made.

        Text.
        """,
    )


def test_broken_front_matter_is_salvaged_with_a_warning() -> None:
    front = split_front_matter("---\ntitle: A: b\nlist: [1\n---\n# Page\n")
    assert front.values["title"] == "A: b"
    assert front.body == "# Page\n"
    assert front.first_line == 5
    assert front.warnings[0].startswith("line 1: front matter cannot be parsed and was read line")


def test_a_page_that_starts_with_a_thematic_break_has_no_front_matter() -> None:
    text = "---\nplain words\n---\n# Page\n"
    assert split_front_matter(text).body == text


def test_front_matter_says_that_a_page_is_out_of_date_and_its_language(page: Page) -> None:
    result = page("---\nstatus: deprecated\nlang: pt-br\n---\n# A\n")
    assert (result.status, result.language) == ("outdated", "pt-BR")
    assert result.notice == "This page is marked as deprecated."


def test_admonitions_of_every_dialect(page: Page) -> None:
    result = page(
        """\
        # T

        !!! warning "Before the break"
            Save your data.

            - twice
        ??? note
            Folded.

            !!! tip ""
                Inner.

        > [!IMPORTANT]
        > Read this.

        :::danger Stop
        Really.
        :::

        ```{hint}
        :class: x
        MyST.
        ```

        End.
        """
    )
    check(
        result,
        """\
        # T

        **Warning: Before the break**

        Save your data.

        - twice

        **Note:**

        Folded.

        Inner.

        **Important:**

        Read this.

        **Danger: Stop**

        Really.

        **Hint:**

        MyST.

        End.
        """,
    )


def test_tabs_become_headings_that_end_with_their_group(page: Page) -> None:
    result = page(
        """\
        # Compile

        ## GNU

        === "North"

            ```bash
            module load gcc/13
            ```

            ### Flags

            Use `-O2`.

        === "South"
            Nothing yet.

        Both have gdb.

        ## Next
        """
    )
    check(
        result,
        """\
        # Compile

        ## GNU

        ### North {#gnu}

        ```bash
        module load gcc/13
        ```

        #### Flags

        Use `-O2`.

        ### South {#gnu}

        Nothing yet.

        ## GNU {#gnu}

        Both have gdb.

        ## Next
        """,
    )


def test_tabs_in_a_list_keep_their_labels(page: Page) -> None:
    result = page('# T\n\n- pick\n\n    === "North"\n        `a`\n\n    === "South"\n        `b`\n')
    check(result, "# T\n\n- pick\n\n  **North:**\n\n  `a`\n\n  **South:**\n\n  `b`")


def test_snippets_come_from_the_source_only(page: Page, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    result = page(
        """\
        # T

        --8<-- "keys.md"

        - in a list

            --8<-- "part.md:use"

        --8<-- "../secret.md"

        ;--8<-- "keys.md"
        """,
        files={
            "parts/keys.md": "Use *ed25519* keys.",
            "parts/part.md": "a\n<!-- --8<-- [start:use] -->\ninside\n<!-- --8<-- [end:use] -->\n",
        },
        snippet_dirs=["parts"],
    )
    assert result.text.strip() == (
        '# T\n\nUse *ed25519* keys.\n\n- in a list\n\n  inside\n\n--8<-- "keys.md"'
    )
    assert result.warnings == ("line 9: snippet ../secret.md is missing",)
    assert result.includes == ("parts/keys.md", "parts/part.md")


def test_mdbook_includes_and_accented_anchors(page: Page) -> None:
    result = page(
        "# T\n\n## Submissão\n\n```sh\n{{#include job.sh:2:3}}\n```\n\n\\{{#include x}}\n\n"
        "## Submissão\n",
        path="src/a.md",
        files={"src/SUMMARY.md": "# Summary\n", "src/job.sh": "#!/bin/sh\na\nb\nc\n"},
    )
    check(
        result,
        """\
        # T

        ## Submissão {#submissão}

        ```sh
        a
        b
        ```

        {{#include x}}

        ## Submissão {#submissão-1}
        """,
    )


def test_jekyll_variables_includes_and_attribute_lists(page: Page) -> None:
    files = {
        "_config.yml": 'remote:\n  prompt: "[me@north]$"\nsnippets: "/lib/North"\n',
        "_includes/lib/North/_config.yml": "unused: 1\n",
        "_includes/lib/North/job.snip": "```\n{{ site.remote.prompt }} squeue\n```\n{: .output}\n",
    }
    text = """\
        ---
        title: "Jobs"
        ---
        > ## Try it
        >
        > ```
        > {{ site.remote.prompt }} sbatch a.sh
        > ```
        > {: .language-bash}
        {: .challenge}

        {% include {{ site.snippets }}/job.snip %}

        {% include links.md %}
        """
    result = page(text, path="_episodes/1.md", files=files)
    check(
        result,
        """\
        **Try it**

        ```bash
        [me@north]$ sbatch a.sh
        ```

        ```
        [me@north]$ squeue
        ```
        """,
    )
    assert result.warnings == ("line 14: include target is missing: {% include links.md %}",)


def test_a_fragment_is_read_with_the_values_of_its_own_folder(page: Page) -> None:
    files = {
        "_config.yml": "queue: short\nhost: north\n",
        "_includes/lib/South_pbs/_config_options.yml": "queue: workq\n",
    }
    path = "_includes/lib/South_pbs/scheduler/queue-info.snip"
    result = page("`qsub -q {{ site.queue }}` on {{ site.host }}\n", path=path, files=files)
    assert result.title == "Queue info (South pbs)"
    assert result.metadata["site"] == "South pbs"
    check(result, "`qsub -q workq` on north")


def test_mkdocs_macros_are_resolved_from_configuration_and_data(page: Page) -> None:
    files = {
        "mkdocs.yml": "plugins:\n  - search\n  - macros:\n      module_name: !!python/name:x.y\n"
        "extra:\n  project: p123\nmarkdown_extensions: [!ENV [A, toc]]\n",
        "data/apps.json": '{"foss": {"versions": ["2022a", "2023a"]}}',
    }
    text = "{{ config.extra.project }} {{ apps.foss.versions | last }} {{ apps.foss.default }}\n"
    result = page(text, path="docs/Software/foss.md", files=files, data={"apps": "data/apps.json"})
    assert result.title == "Foss"
    check(result, "p123 2023a <apps.foss.default>")


def test_templates_are_left_alone_where_the_site_has_none(page: Page) -> None:
    text = "# Helm\n\nSet `{{ .Values.a }}`:\n\n```yaml\nx: {{ b }}\n{% if c %}\n```\n"
    result = page(text)
    check(result, text)
    assert result.warnings == ()


def test_icons_attributes_and_roles_are_resolved(page: Page) -> None:
    result = page(
        """\
        # T { #top .x }

        :material-arrow-right: [Go](a.md){ .md-button target="_blank" }
        {ref}`Jobs <jobs>` {file}`a.sh`

        | tool | GPU |
        | --- | --- |
        | a | :material-check-circle: |
        | b | :material-close: |

        Costs ${HOME} {a} `#!bash ls`.
        """
    )
    check(
        result,
        """\
        # T {#top}

        [Go](a.md)
        Jobs `a.sh`

        | tool | GPU |
        | --- | --- |
        | a | yes |
        | b | no |

        Costs ${HOME} {a} `ls`.
        """,
    )


def test_inline_html_and_placeholders(page: Page) -> None:
    result = page(
        "# T\n\n10<sup>6</sup> files, H<sub>2</sub>O, press <kbd>Ctrl</kbd>, <b>now</b><br>"
        "ssh <username>@<host> <!-- no --> <span style='x'>y</span>\n\n"
        "| a |\n|---|\n| one<br>two.<br>three |\n"
    )
    check(
        result,
        """\
        # T

        10^6 files, H2O, press `Ctrl`, **now**
        ssh <username>@<host>  y

        | a |
        | --- |
        | one; two. three |
        """,
    )


def test_anchors_before_headings_move_onto_them(page: Page) -> None:
    result = page(
        '# T\n\n[](){#ref-a}\n## One\n\n<a name="b"></a>\n\n## Two\n\n## <a id="c"></a>Three\n'
    )
    check(result, "# T\n\n## One {#ref-a}\n\n## Two {#b}\n\n## Three {#c}")


def test_footnotes_definitions_abbreviations_and_tasks(page: Page) -> None:
    result = page(
        """\
        # T

        Billed[^1] hourly, later[^1] too.

        Node
        :   One machine.

            With memory.

        - [x] done

        *[HPC]: High performance
            computing

        [^1]: In *units*.
        """
    )
    check(
        result,
        """\
        # T

        Billed (note 1: In *units*.) hourly, later (note 1) too.

        Node
        : One machine.

            With memory.

        - [x] done

        HPC
        : High performance computing
        """,
    )


def test_unresolved_references_read_as_words_and_images_as_their_text(page: Page) -> None:
    result = page(
        "# T\n\nSee [the guide][missing] and a[0][1].\n\n![Disk layout](d.png) ![](x.png)\n"
    )
    check(result, "# T\n\nSee the guide and a[0][1].\n\n[Figure: Disk layout]")


def test_equal_headings_get_the_anchors_of_their_site(page: Page) -> None:
    result = page("# T\n\n## Run\n\n## Run\n", files={"mkdocs.yml": "site_name: x\n"})
    check(result, "# T\n\n## Run\n\n## Run {#run_1}")


def test_a_page_without_top_heading_is_named_by_its_file(page: Page) -> None:
    assert page("## A\n\n## B\n", path="apps/ansys-fluent.md").title == "Ansys fluent"
    assert page("## A\n\ntext\n\n### B\n").title == "A"


def test_html_tables_become_pipe_tables(page: Page) -> None:
    result = page(
        "# T\n\n<table>\n<tr><th>a</th><th>b</th></tr>\n\n<tr><td>1</td><td>2</td></tr>\n</table>\n"
    )
    check(result, "# T\n\n| a | b |\n| --- | --- |\n| 1 | 2 |")


@pytest.mark.parametrize("text", ["", "\n\n", "---\n", "```\n", "> " * 400, "- " * 400, "[" * 5000])
def test_odd_input_is_read(page: Page, text: str) -> None:
    assert page(text).title == "Page"


def test_aliases_that_multiply_are_not_written_out(tmp_path: Path) -> None:
    names = "abcdefghij"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise(names)]
    page = "---\n" + "\n".join(lines) + "\n---\n# Queues\n\nThe body stays.\n"
    result = read(RawFile("a.md", page.encode(), tmp_path))
    assert result.title == "Queues"
    assert "The body stays." in result.text
    assert "its aliases repeat more than 200000 values" in result.warnings[0]


def test_an_alias_of_itself_leaves_the_page(tmp_path: Path) -> None:
    page = b"---\nkind: &a [*a]\n---\n# Queues\n\nThe body stays.\n"
    assert "The body stays." in read(RawFile("a.md", page, tmp_path)).text


def test_snippets_that_multiply_are_cut_short(tmp_path: Path) -> None:
    for number in range(7):
        lines = f'--8<-- "part{number + 1}.md"\n' * 10
        (tmp_path / f"part{number}.md").write_text(lines, encoding="utf-8")
    (tmp_path / "part7.md").write_text("A leaf.\n", encoding="utf-8")
    page = b'# Queues\n\n--8<-- "part0.md"\n\nThe body stays.\n'
    result = read(RawFile("a.md", page, tmp_path))
    assert "The body stays." in result.text
    assert result.text.count("A leaf.") < 1000
    assert any("more than 1000 includes: the rest is left out" in w for w in result.warnings)
