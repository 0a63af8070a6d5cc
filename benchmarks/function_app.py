"""An app whose function does nothing: what is measured is all around it."""

from cronhare import App

app = App("bench")


@app.task
def nothing() -> None:
    pass
