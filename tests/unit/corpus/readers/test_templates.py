from __future__ import annotations

import pytest

from hpcllm.corpus.readers.template_expressions import UNRESOLVED, evaluate, is_true
from hpcllm.corpus.readers.templates import has_template_tags, render_template

VARIABLES = {
    "site": {"sched": {"name": "Slurm", "del": "scancel"}, "empty": ""},
    "apps": {"foss": {"versions": ["2022a", "2023a"]}},
    "paths": ["/scratch", "p1"],
    "count": 3,
}


def render(text: str, *, blank_none: bool = False, **files: str) -> tuple[str, list[str]]:
    warnings: list[str] = []
    include = {name.replace("_", "."): body for name, body in files.items()}.get
    return render_template(text, VARIABLES, include, warnings, blank_none=blank_none), warnings


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("site.sched.name", "Slurm"),
        ("site['sched']['del'] | upper", "SCANCEL"),
        ('apps["foss"].versions | last', "2023a"),
        ("paths|join('/')", "/scratch/p1"),
        ("paths[0]", "/scratch"),
        ('site.sched.name | replace: "l", "L" | append: "!"', "SLurm!"),
        ("nothing | default('none')", "none"),
        ("'a' ~ count", "a3"),
        ("site.missing", None),
        ("nothing.at.all", UNRESOLVED),
        ("macro(1)", UNRESOLVED),
        ("site | unheard_of", UNRESOLVED),
        ("%%", UNRESOLVED),
    ],
)
def test_expressions(expression: str, value: object) -> None:
    assert evaluate(expression, VARIABLES) == value


@pytest.mark.parametrize(
    ("condition", "truth"),
    [
        ("site.sched.name == 'Slurm'", True),
        ("site.empty != ''", False),
        ("not site.missing and count > 2", True),
        ("paths contains 'p1'", True),
        ("site.missing < 3", False),
        ("nothing == 1", None),
        ("nothing or count", True),
        ("nothing and site.missing", False),
        ("count is defined", True),
    ],
)
def test_conditions(condition: str, truth: bool | None) -> None:
    assert is_true(condition, VARIABLES) is truth


def test_known_values_are_put_in_code_too() -> None:
    text = "Use {{ site.sched.name }}:\n```\n{{site.sched.del}} 12\n```\n"
    assert render(text) == ("Use Slurm:\n```\nscancel 12\n```\n", [])


def test_unknown_values_stay_as_they_are_in_code_and_readable_in_prose() -> None:
    text = (
        "Load {{ app.version }} with `module load x/{{ app.version }}`.\n\n"
        "```\n{{ .Values.x }}\n```"
    )
    rendered, warnings = render(text)
    assert rendered == (
        "Load <app.version> with `module load x/{{ app.version }}`.\n\n```\n{{ .Values.x }}\n```"
    )
    assert warnings == ["line 1: value is not known: {{ app.version }}"]


def test_a_missing_member_is_empty_in_liquid_and_unknown_in_jinja() -> None:
    assert render("a {{ site.nope }} b", blank_none=True)[0] == "a  b"
    assert render("a {{ site.nope }} b")[0] == "a <site.nope> b"


def test_branches_follow_known_conditions_and_keep_all_text_of_unknown_ones() -> None:
    assert render("{% if site.empty %}a{% elsif count > 2 %}b{% else %}c{% endif %}")[0] == "b"
    assert render("{% unless site.empty %}a{% else %}b{% endunless %}")[0] == "a"
    assert render("{% if nothing %}a{% else %}b{% endif %}")[0] == "ab"


def test_loops_assignments_and_captures() -> None:
    text = "{% set v = apps.foss.versions | first %}{% for x in paths %}{{ x }} {% endfor %}{{ v }}"
    assert render(text)[0] == "/scratch p1 2022a"
    assert render("{% capture c %}<{{ count }}>{% endcapture %}{{ c }}")[0] == "<3>"


def test_an_unknown_loop_is_left_out_and_reported() -> None:
    rendered, warnings = render("a\n{% for p in pages() %}- {{ p }}{% endfor %}b")
    assert rendered == "a\nb"
    assert warnings == ["line 2: list is not known, the loop was left out: {% for p in pages() %}"]


def test_raw_blocks_and_comments() -> None:
    text = "{% raw %}{{ site.sched.name }}{% endraw %}{# note #}{% comment %}x{% endcomment %}!"
    assert render(text)[0] == "{{ site.sched.name }}!"


def test_includes_are_rendered_with_their_parameters() -> None:
    rendered, warnings = render(
        '{% include {{ "a" }}.md who="you" %}', a_md="{{ site.sched.name }} for {{ include.who }}"
    )
    assert (rendered, warnings) == ("Slurm for you", [])


def test_a_missing_include_is_reported_and_a_sentence_stays_readable() -> None:
    text = 'Please {% include "partials/support_request.html" %}.\n{% include "footer.html" %}\n'
    rendered, warnings = render(text)
    assert rendered == "Please <support request>.\n\n"
    assert [warning.partition(":")[0] for warning in warnings] == ["line 1", "line 2"]


def test_a_missing_figure_keeps_its_caption() -> None:
    rendered, _ = render('{% include figure.html caption="" alt="Nodes of\n   a cluster" %}')
    assert rendered == "[Figure: Nodes of a cluster]"


def test_an_include_loop_ends() -> None:
    rendered, warnings = render("{% include a.md %}", a_md="x{% include a.md %}")
    assert rendered == "x<a>"
    assert warnings == ["line 1: file includes itself: {% include a.md %}"]


def test_tags_in_sample_code_do_not_make_a_page_a_template() -> None:
    assert has_template_tags("{% if a %}b{% endif %}")
    assert not has_template_tags("```\n{% if a %}\n```\nUse `{% raw %}` and {{ x }}.")


def test_unclosed_and_deep_blocks_do_not_fail() -> None:
    assert "b" in render("{% if nothing %}" * 500 + "b")[0]
    assert render("{% endif %}a{% else %}")[0] == "a"


def test_loops_within_loops_end() -> None:
    text = "{% for a in paths %}" * 20 + "x" + "{% endfor %}" * 20
    rendered, warnings = render(text)
    assert 0 < rendered.count("x") <= 10_000
    assert warnings == [
        "line 1: loops take more than 10000 turns, the rest was left out: {% for a in paths %}"
    ]


def test_loops_in_included_files_count_too() -> None:
    inside = "{% for b in paths %}" * 10 + "x" + "{% endfor %}" * 10
    text = "{% for a in paths %}" * 10 + "{% include i.md %}" + "{% endfor %}" * 10
    rendered, warnings = render(text, i_md=inside)
    assert 0 < rendered.count("x") <= 10_000
    assert "more than 10000 turns" in warnings[0]


@pytest.mark.parametrize(
    "step",
    [
        "{% assign a = a | append: a %}",
        "{% assign a = a ~ a %}",
        "{% capture a %}{{ a }}{{ a }}{% endcapture %}",
        "{% assign a = a | replace: 'x', a %}",
    ],
)
def test_a_value_that_doubles_again_and_again_stays_small(step: str) -> None:
    rendered, _ = render("{% assign a = 'xx' %}" + step * 60 + "{{ a }}")
    assert len(rendered) <= 200_000
