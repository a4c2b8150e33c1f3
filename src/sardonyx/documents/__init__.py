"""Documents of operators in SONNX's template, made of the definitions themselves."""

from sardonyx.documents.page import document, page, tags

__all__ = ["document", "page", "tags"]
