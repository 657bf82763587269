from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any, Protocol

import docutils.parsers.rst.directives as docutils_directives
import docutils.parsers.rst.roles as docutils_roles
import pytest

from hpcllm.corpus.readers.base import RawFile, ReadResult
from hpcllm.corpus.readers.restructuredtext import read
from hpcllm.corpus.readers.rst_directives import select_lines
from hpcllm.errors import IngestError

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
        path: str = "docs/page.rst",
        files: dict[str, str] | None = None,
        **options: Any,
    ) -> ReadResult:
        for name, content in (files or {}).items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(textwrap.dedent(content))
        return read(RawFile(path, textwrap.dedent(text).encode(), root, options))

    return make


def check(result: ReadResult, expected: str) -> None:
    assert result.text.strip("\n") == textwrap.dedent(expected).strip("\n")


def test_structure_labels_and_inline_markup(page: Page) -> None:
    result = page(
        """\
        :orphan:
        :description: How to wait

        .. _queues-intro:

        Queues
        ======

        Jobs *wait* in **queues**; ``sinfo`` and `docs <https://example.org/a>`_, ``a`b``.

        * short

          .. code-block:: console
             :emphasize-lines: 1

             $ sinfo
                -a

        * long

        Slurm.conf
        ----------

        1. one
        2. two

        .. a comment

        Text::

            literal *text*
        """
    )
    assert result.title == "Queues"
    assert result.metadata == {"orphan": "", "description": "How to wait"}
    check(
        result,
        """\
        # Queues {#queues-intro}

        Jobs *wait* in **queues**; `sinfo` and [docs](https://example.org/a), ``a`b``.

        - short

        ```console
        $ sinfo
           -a
        ```

        - long

        ## Slurm.conf {#slurm-conf}

        1. one
        2. two

        Text:

        ```
        literal *text*
        ```
        """.replace("``a`b``", "`` a`b ``"),
    )
    assert result.warnings == ()


def test_tabs_keep_labels_and_end_with_their_group(page: Page) -> None:
    result = page(
        """\
        Compile
        =======

        .. tabs::

           .. group-tab:: North

              .. code-block:: bash

                 module load gcc

           .. group-tab:: South

              Nothing yet.

        Both have gdb.
        """
    )
    check(
        result,
        """\
        # Compile

        ## North {#compile}

        ```bash
        module load gcc
        ```

        ## South {#compile}

        Nothing yet.

        # Compile {#compile}

        Both have gdb.
        """,
    )


def test_tables_of_every_kind_become_pipe_tables(page: Page) -> None:
    result = page(
        """\
        T
        =

        +-------+-----------+
        | queue | hours     |
        +=======+===========+
        | short | * 2       |
        |       | * or 3    |
        +-------+-----------+

        .. list-table:: Nodes
           :header-rows: 1
           :unheard-of: yes

           * - name
             - memory
           * - fat
             - 1 TB

        .. csv-table::
           :header: a, b

           1, "2, 3"

        ===  ===
        x    y
        ===  ===
        """
    )
    check(
        result,
        """\
        # T

        | queue | hours |
        | --- | --- |
        | short | 2; or 3 |

        Nodes

        | name | memory |
        | --- | --- |
        | fat | 1 TB |

        | a | b |
        | --- | --- |
        | 1 | 2, 3 |

        |  |  |
        | --- | --- |
        | x | y |
        """,
    )


def test_a_cell_over_several_rows_is_repeated(page: Page) -> None:
    result = page(
        """\
        +---+---+
        | a | b |
        +===+===+
        | 1 | 2 |
        |   +---+
        |   | 3 |
        +---+---+
        """
    )
    check(result, "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 1 | 3 |")


def test_a_malformed_table_is_kept_and_reported(page: Page) -> None:
    result = page("T\n=\n\n+---+\n| a |\n+--+\n\nEnd.\n")
    assert "| a |" in result.text
    assert result.text.endswith("End.")
    assert result.warnings == ("line 6: Malformed table. Bottom border missing or corrupt.",)


def test_includes_with_options_inside_the_root_only(page: Page, tmp_path: Path) -> None:
    (tmp_path / "secret.rst").write_text("secret")
    files = {
        "shared/part.rst": "no\n\n.. start\n\nUse *this*, see :doc:`page`.\n\n"
        ".. include:: deep.rst\n\n.. end\n\nno\n",
        "shared/deep.rst": "Deeper.\n",
    }
    result = page(
        """\
        T
        =

        .. include:: ../shared/part.rst
           :start-after: .. start
           :end-before: .. end

        .. include:: /../secret.rst

        .. include:: gone.rst
        """,
        files=files,
    )
    check(result, "# T\n\nUse *this*, see page.\n\nDeeper.")
    assert result.warnings == (
        "line 8: include target /../secret.rst is missing",
        "line 10: include target gone.rst is missing",
    )
    assert result.includes == ("shared/deep.rst", "shared/part.rst")


def test_an_include_loop_ends(page: Page) -> None:
    result = page(".. include:: /a.rst\n", files={"a.rst": "x\n\n.. include:: a.rst\n"})
    assert result.text == "x"
    assert result.warnings == ("a.rst: line 3: a.rst includes itself: the include was left out",)


def test_a_missing_literalinclude_says_what_is_missing(page: Page) -> None:
    result = page(
        """\
        T
        =

        .. literalinclude:: job.sh
           :language: bash

        .. literalinclude:: there.sh
           :language: bash
           :lines: 2-
        """,
        files={"docs/there.sh": "#!/bin/bash\nsrun a\n"},
    )
    check(
        result,
        """\
        # T

        (The file job.sh is shown here on the site and was not available to read.)

        there.sh:

        ```bash
        srun a
        ```
        """,
    )
    assert result.warnings == ("line 4: literalinclude target job.sh is missing",)


def test_variables_and_the_prolog_are_put_in_without_the_prologs_text(page: Page) -> None:
    result = page(
        """\
        Run {Project}
        =============

        |site| has ``{command}``; and ${command} stays. |br|
        Then :loud:`go`.

        .. code-block:: bash

           {command} pull
        """,
        files={
            "global.rst": """\
                .. |site| replace:: North
                .. |br| raw:: html

                    <br/>

                .. role:: loud
                    :class: bold

                .. attention:: Down on Monday.
                """
        },
        prepend=["global.rst"],
        variables={"command": "apptainer", "Project": "Apptainer"},
    )
    check(
        result,
        """\
        # Run Apptainer

        North has `apptainer`; and ${command} stays.
        Then go.

        ```bash
        apptainer pull
        ```
        """,
    )


def test_an_unknown_variable_is_reported_with_the_option_to_set(page: Page) -> None:
    result = page("Run ``{command} a``.\n\n" * 5)
    assert result.warnings == (
        "{command} occurs 5 times and has no value: set options.variables.command of the source "
        "if the site's build replaces it",
    )


def test_references_show_the_titles_behind_their_labels(page: Page) -> None:
    files = {
        "other.rst": ".. _gpu_jobs:\n\nJobs on GPUs\n------------\n\ntext\n",
        "docs/child.rst": "Child page\n==========\n",
    }
    result = page(
        """\
        T
        =

        See :ref:`gpu_jobs`, :ref:`there <gpu_jobs>`, :ref:`lost_label`, :doc:`child`,
        :doc:`/other`, :term:`node`, :file:`a.sh`, :made-up:`text`.

        .. toctree::

           child
           Other name <other>
           gone
        """,
        files=files,
    )
    check(
        result,
        """\
        # T

        See Jobs on GPUs, there, lost label, Child page,
        Jobs on GPUs, node, `a.sh`, text.

        - Child page
        - Other name
        """,
    )


def test_admonitions_folded_questions_objects_and_unknown_directives(page: Page) -> None:
    result = page(
        """\
        T
        =

        .. note:: Short
           and folded.

        .. admonition:: My title

           Body.

        .. versionadded:: 2.0
           New.

        .. dropdown:: Why is my job pending?

           Because.

        .. option:: --mem

           Memory.

        .. made-up:: Some words
           :opt: 1

           Kept *content*.

        .. image:: a.png
           :alt: Disk layout
        """
    )
    check(
        result,
        """\
        # T

        **Note:**

        Short
        and folded.

        **My title**

        Body.

        **Added in version** 2.0 New.

        ## Why is my job pending? {#t}

        Because.

        # T {#t}

        `--mem`
        : Memory.

        **Some words**

        Kept *content*.

        [Figure: Disk layout]
        """,
    )


def test_definitions_options_footnotes_and_substitutions(page: Page) -> None:
    result = page(
        """\
        .. |v| replace:: 25.05

        .. glossary::

           node
              One machine.

        -m, --mem  memory

        Version |v| [#a]_, |unknown| and [#a]_.

        .. [#a] Since May.
        """
    )
    check(
        result,
        """\
        node {#term-node}
        : One machine.

        `-m, --mem`
        : memory

        Version 25.05 (note 1: Since May.), unknown and (note 1).
        """,
    )


def test_side_boxes_before_the_title_stand_below_it(page: Page) -> None:
    result = page(".. sidebar:: Tool\n\n   :Version: 2\n\n.. _tool:\n\nTool\n====\n\nText.\n")
    check(result, "# Tool\n\n**Tool:**\n\n- Version: 2\n\nText.")


def test_docutils_is_left_as_it_was(page: Page) -> None:
    directive, role = docutils_directives.directive, docutils_roles.role
    page(".. role:: own\n\n.. made-up:: x\n\n:own:`a`\n")
    assert docutils_directives.directive is directive
    assert docutils_roles.role is role
    assert "own" not in vars(docutils_roles)["_roles"]


def test_text_that_is_nested_too_deeply_is_an_ingest_error(page: Page) -> None:
    text = "".join(f"{' ' * depth}x\n\n" for depth in range(400))
    with pytest.raises(IngestError, match=r"page\.rst: lists or directives are nested too deeply"):
        page(text)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"lines": "1,3-"}, "a\nc\nd"),
        ({"start-line": "1", "end-line": "-1"}, "b\nc"),
        ({"start-at": "b", "end-at": "c"}, "b\nc"),
        ({"start-after": "b", "end-before": "d"}, "c"),
        ({"start-after": "zz", "lines": "x"}, ""),
        ({}, "a\nb\nc\nd"),
    ],
)
def test_select_lines(options: dict[str, str], expected: str) -> None:
    assert select_lines("a\nb\nc\nd", options) == expected


@pytest.mark.parametrize("text", ["", "..\n", "====\n", "a\n=\nb\n-\nc\n=\nd\n~\n", "|x|_", "`a"])
def test_odd_input_is_read(page: Page, text: str) -> None:
    assert page(text).title
