"""Instruction data, decontamination, QLoRA training and export."""
