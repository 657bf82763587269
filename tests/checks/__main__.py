"""Run the checks of ``make check`` that no library knows: ``python -m tests.checks``.

Each prints what is wrong, one line each; the exit code is 1 when anything is.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.checks import corpus_checks, docs_checks

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Run all checks and print their problems."""
    checks = {
        "shell blocks parse": corpus_checks.shell_problems,
        "internal links resolve": corpus_checks.link_problems,
        "scheduler options exist": corpus_checks.option_problems,
        "numbers agree with site.toml": corpus_checks.site_problems,
        "questions are sound": corpus_checks.question_problems,
        "documentation links resolve": docs_checks.link_problems,
        "documented commands exist": docs_checks.example_problems,
        "the project speaks of itself alone": docs_checks.wording_problems,
    }
    failed = False
    for name, check in checks.items():
        problems = check(ROOT)
        failed = failed or bool(problems)
        sys.stdout.write(f"{name}: {len(problems) or 'no'} problem(s)\n")
        sys.stdout.writelines(f"  {problem}\n" for problem in problems)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
