"""Passes: a graph to a scheduled graph with the same bits."""
