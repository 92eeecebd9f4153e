"""Scenes: CLEVR and textured ones, rendered here."""
