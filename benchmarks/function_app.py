"""An app whose function does nothing: what is measured is all around it."""

from cronhare import App

app = App("bench")


@app.task
def nothing(customer: int = 0) -> None:
    pass


@app.task
async def nothing_async(customer: int = 0) -> None:
    pass
