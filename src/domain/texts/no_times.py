"""What stands for the times of a schedule that has none."""


def say_no_times(*, source: str | None, stay_alive: bool | None) -> str:
    """Say it in a few words; *source* is its jobs file, if it is of one.

    Whether a jobs file has it begin at a start or a boot too, no row says.

    >>> say_no_times(source=None, stay_alive=False)
    'by hand'
    >>> say_no_times(source="jobs.toml", stay_alive=False)
    'no times of its own'
    >>> say_no_times(source="jobs.toml", stay_alive=True)
    'always'
    """
    if stay_alive:
        return "always"
    return "by hand" if source is None else "no times of its own"


def say_ways(source: str) -> str:
    """Say what begins a schedule of a jobs file that has no times.

    >>> say_ways("jobs.toml")
    'begun by hand; or at a boot or start, as jobs.toml says'
    """
    return f"begun by hand; or at a boot or start, as {source} says"
