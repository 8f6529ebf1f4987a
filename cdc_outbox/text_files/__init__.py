"""Texts that know their lines: YAML, JSON and properties, and edits that keep comments."""
