"""Compiles `vfork.c` into the wheel, where there is a C compiler; a wheel without it forks."""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_IN_SRC = Path("adapters", "process")
_FLAGS = ("-O2", "-shared", "-fPIC")


class VforkBuildHook(BuildHookInterface[Any]):
    """`CC` names another compiler than `cc`; `CC=false` makes a wheel for any machine."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        process = Path(self.root, "src", _IN_SRC)
        is_editable = version == "editable"  # it is run from where it is
        library = process / "vfork.so" if is_editable else Path(self.root, "build", "vfork.so")
        library.parent.mkdir(exist_ok=True)
        compiler = shlex.split(os.environ.get("CC") or "cc")
        command = [*compiler, *_FLAGS, "-o", str(library), str(process / "vfork.c")]
        try:
            subprocess.run(command, check=True)  # noqa: S603 - the builder's own compiler
        except (OSError, subprocess.CalledProcessError):
            self.app.display_warning("vfork.c was not compiled: a worker will start tasks by fork")
            return
        if not is_editable:
            build_data["force_include"][str(library)] = f"cronhare/{_IN_SRC}/vfork.so"
            build_data["pure_python"] = False
            machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{machine}"
