"""Texts that become sentences."""


def ended(text: str) -> str:
    """End a text with a full stop, unless it asks something.

    >>> ended("it is late"), ended("did you mean mail?")
    ('it is late.', 'did you mean mail?')
    """
    return text if text.endswith("?") else f"{text}."
