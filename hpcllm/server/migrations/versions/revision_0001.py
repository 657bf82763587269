"""The first tables: conversations, messages, answers, citations, feedback, gaps, deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from hpcllm.server.tables import UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "conversations",
    "answers",
    "messages",
    "citations",
    "feedback",
    "gaps",
    "deliveries",
)


def upgrade() -> None:
    """Make the tables."""
    _conversations()
    _answers()
    _judgements()
    op.create_table(
        "deliveries",
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.Column("is_done", sa.Boolean(), nullable=False),
        sa.Column("created", UtcDateTime(), nullable=False),
    )
    op.create_index("ix_deliveries_is_done_created", "deliveries", ["is_done", "created"])


def _conversations() -> None:
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(200), nullable=False),
        sa.Column("external_id", sa.String(200)),
        sa.Column("cluster", sa.String(100)),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("created", UtcDateTime(), nullable=False),
        sa.Column("updated", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("channel", "external_id", name="uq_conversations_channel_external_id"),
    )
    op.create_index(
        "ix_conversations_owner_channel_updated", "conversations", ["owner", "channel", "updated"]
    )


def _answers() -> None:
    op.create_table(
        "answers",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("conversation_id", sa.String(32)),
        sa.Column("channel", sa.String(16), nullable=False),
        sa.Column("cluster", sa.String(100)),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("standalone_question", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("abstained", sa.Boolean(), nullable=False),
        sa.Column("fallback", sa.Text(), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("generation", sa.String(100), nullable=False),
        sa.Column("receipt", sa.JSON(), nullable=False),
        sa.Column("citations", sa.JSON(), nullable=False),
        sa.Column("checks", sa.JSON(), nullable=False),
        sa.Column("passages", sa.JSON(), nullable=False),
        sa.Column("timings_ms", sa.JSON(), nullable=False),
        sa.Column("tokens", sa.JSON(), nullable=False),
        sa.Column("created", UtcDateTime(), nullable=False),
        _link("answers", "conversation_id", "conversations.id", "CASCADE"),
    )
    op.create_index("ix_answers_conversation_id", "answers", ["conversation_id"])
    op.create_index("ix_answers_created", "answers", ["created"])
    op.create_table(
        "messages",
        sa.Column("conversation_id", sa.String(32), primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("answer_id", sa.String(32)),
        sa.Column("created", UtcDateTime(), nullable=False),
        _link("messages", "conversation_id", "conversations.id", "CASCADE"),
        _link("messages", "answer_id", "answers.id", "SET NULL"),
    )
    op.create_table(
        "citations",
        sa.Column("answer_id", sa.String(32), primary_key=True),
        sa.Column("source", sa.String(200), primary_key=True),
        sa.Column("path", sa.String(1000), primary_key=True),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("url", sa.Text()),
        _link("citations", "answer_id", "answers.id", "CASCADE"),
    )
    op.create_index("ix_citations_source_path", "citations", ["source", "path"])


def _judgements() -> None:
    op.create_table(
        "feedback",
        sa.Column("answer_id", sa.String(32), primary_key=True),
        sa.Column("author", sa.String(200), primary_key=True),
        sa.Column("rating", sa.String(8), nullable=False),
        sa.Column("reason", sa.String(32), nullable=False),
        sa.Column("comment", sa.Text(), nullable=False),
        sa.Column("created", UtcDateTime(), nullable=False),
        _link("feedback", "answer_id", "answers.id", "CASCADE"),
    )
    op.create_index("ix_feedback_created", "feedback", ["created"])
    op.create_table(
        "gaps",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("answer_id", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created", UtcDateTime(), nullable=False),
        sa.UniqueConstraint("answer_id", name="uq_gaps_answer_id"),
        _link("gaps", "answer_id", "answers.id", "CASCADE"),
    )
    op.create_index("ix_gaps_state_created", "gaps", ["state", "created"])


def _link(table: str, column: str, target: str, on_delete: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        [column], [target], name=f"fk_{table}_{column}", ondelete=on_delete
    )


def downgrade() -> None:
    """Drop the tables, those that others refer to last."""
    for table in reversed(TABLES):
        op.drop_table(table)
