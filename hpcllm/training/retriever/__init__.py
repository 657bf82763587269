"""The retriever learns: pairs of questions and passages, an adapter of the sentence encoder."""
