from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.corpus.redact import redact

VARIED = "".join(f"{a}{b}" for a, b in zip(string.ascii_letters, "0123456789" * 6, strict=False))
"""A text that looks generated; the tests put together from it what scanners would report."""
KEY_BODY = "\n".join(["MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"] * 3)

SECRETS = [
    ("GitHub token", "clone with ghp_" + VARIED[:36], "ghp_"),
    ("GitHub token", "github_pat_" + VARIED[:60], "github_pat_"),
    ("GitLab token", "glpat-" + VARIED[:20], "glpat-"),
    ("Hugging Face token", "export HF=hf_" + VARIED[:34], "hf_"),
    ("Slack token", "xoxb-" + "1234567890-" + VARIED[:24], "xoxb-"),
    ("Slack webhook", "https://hooks.slack.com/services/T012AB/B345CD/" + VARIED[:24], "T012AB"),
    ("AWS access key", "AKIA" + "QX7B2M4K9Z1T5W3C", "AKIA"),
    ("AWS secret key", "aws_secret_access_key = " + VARIED[:40], VARIED[:40]),
    ("API key", "sk-proj-" + VARIED[:40], "sk-proj"),
    ("API key", "hpcllm_0a1b2c3d_" + VARIED[:43], "hpcllm_"),
    ("JSON web token", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl", "eyJ"),
    ("password in a URL", "https://ada:tr0ub4dor@host.example/x", "tr0ub4dor"),
    ("password in a URL", "postgresql://app:p%40ss9@db/hpc", "p%40ss9"),
    ("authorization header", "Authorization: Bearer " + VARIED[:20], VARIED[:20]),
    ("password", 'password = "tr0ub4dor&3"', "tr0ub4dor"),
    ("password", "DB_PASSWORD=hunter2!x", "hunter2"),
    ("password", "senha: Segredo#42", "Segredo"),
    ("password", "my password is tr0ub4dor&3 and it fails", "tr0ub4dor"),
    ("password", "mysql -u ada -ptr0ub4dor hpc", "tr0ub4dor"),
    ("password", "curl -u ada:tr0ub4dor https://x.example", "tr0ub4dor"),
    ("password", "sshpass -p tr0ub4dor ssh login1", "tr0ub4dor"),
    ("token", "WANDB_API_KEY=" + VARIED[:40], VARIED[:40]),
    ("token", '{"access_token": "' + VARIED[:24] + '"}', VARIED[:24]),
]

HARMLESS = [
    "password=<your password>",
    "export TOKEN=$MY_TOKEN",
    "PASSWORD=${PASSWORD}",
    "api_key = os.environ['API_KEY']",
    "set your password: at least 12 characters",
    "Password: ********",
    "token=xxxxxxxxxxxxxxxx",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "ssh-keygen -t ed25519",
    "#SBATCH --mail-type=END --gres=gpu:a100:2",
    "sbatch --export=ALL job.sh",
    "git@github.com:org/repo.git",
    "the key of the dictionary: value",
    "ssh://login1.example.org:22/home",
    "scontrol token lifespan=3600",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
    "passwd: changes your password",
    "module load cuda/12.4 && nvcc --version",
    "JobId=123456 UserId=ada(1000) Reason=Resources",
    "MaxTokens: 4096 tokens",
]


@pytest.mark.parametrize(("kind", "text", "secret"), SECRETS)
def test_secrets_are_taken_out(kind: str, text: str, secret: str) -> None:
    redacted, findings = redact(text)
    assert secret not in redacted
    assert f"[redacted: {kind}]" in redacted
    assert [finding.kind for finding in findings] == [kind]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == (text, [])


def test_a_private_key_goes_and_its_frame_stays() -> None:
    begin, end = (f"-----{word} OPENSSH PRIVATE KEY-----" for word in ("BEGIN", "END"))
    text = f"see\n{begin}\n{KEY_BODY}\n{end}\nend"
    redacted, (finding,) = redact(text)
    assert redacted == f"see\n{begin}[redacted: private key]{end}\nend"
    assert (finding.kind, finding.line) == ("private key", 2)


def test_a_private_key_that_was_cut_off_goes_too() -> None:
    redacted, _ = redact(f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_BODY}")
    assert redacted == "-----BEGIN RSA PRIVATE KEY-----[redacted: private key]"


def test_lines_and_offsets_are_those_of_the_original() -> None:
    text = "a\npassword=tr0ub4dor&3\nDB_PASSWORD=hunter2!x"
    findings = redact(text)[1]
    assert [(f.line, text[f.start : f.end]) for f in findings] == [
        (2, "tr0ub4dor"),
        (3, "hunter2!x"),
    ]


class TestPersonal:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("I am ada.l+x@phys.uni.example.", "I am [redacted: e-mail address]."),
            ("/home/ada/job.sh fails", "/home/[redacted: home path]/job.sh fails"),
            ("in /Users/ada", "in /Users/[redacted: home path]"),
        ],
    )
    def test_it_goes_where_asked_for(self, text: str, expected: str) -> None:
        assert redact(text, personal=True)[0] == expected
        assert redact(text) == (text, [])

    @pytest.mark.parametrize(
        "text",
        [
            "/home/$USER/x",
            "/home/<username>/x",
            "/home/username",
            "/scratch/project/home/x",
            "ssh user@login1.example.org",
            "scp x ada@login1.example.org:/scratch",
            "git@github.com:org/repo",
            "srun --mpi=pmix@v4",
        ],
    )
    def test_what_stands_for_anybody_stays(self, text: str) -> None:
        assert redact(text, personal=True) == (text, [])


@given(st.text(max_size=300))
def test_twice_changes_nothing_more(text: str) -> None:
    once, _ = redact(text, personal=True)
    assert redact(once, personal=True)[0] == once


@pytest.mark.parametrize(
    "unit", ["token=", "a@", "-----BEGIN PRIVATE KEY-----", "http://a:", "x" * 9]
)
@pytest.mark.timeout(10)
def test_long_texts_take_no_longer_than_their_length_asks_for(unit: str) -> None:
    redact(unit * (100_000 // len(unit)), personal=True)
