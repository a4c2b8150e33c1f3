"""Sardonyx: the same bits everywhere."""
