"""HTTP: the OpenAI-compatible interface and our own.

What pages and bots build on: :class:`~hpcllm.server.service.AssistantService`,
:class:`~hpcllm.server.store.Store` and :func:`~hpcllm.server.app.create_app`.
"""
