"""Jobs files of a few lines, in a folder of their own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from cronhare.adapters.jobs.reader import JobsFile, JobsFileInvalid, read_jobs
from cronhare.domain.retries.policy import RetryPolicy


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str | bytes], JobsFile]:
    def read(content: str | bytes) -> JobsFile:
        path = tmp_path / "jobs.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_jobs(path, policy=RetryPolicy())

    return read


@pytest.fixture
def faults(
    read: Callable[[str | bytes], JobsFile],
) -> Callable[[str | bytes], list[str]]:
    def faults(content: str | bytes) -> list[str]:
        with pytest.raises(JobsFileInvalid) as refused:
            read(content)
        return [str(fault) for fault in refused.value.faults]

    return faults
