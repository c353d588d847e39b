"""Builds the recording core of `plait.batch` where a compiler is present; without one everything works, slower."""  # noqa: E501

from glob import glob

from setuptools import Extension, setup

CORE = "src/plait/batching/core"
setup(ext_modules=[Extension("plait.batching._core", [f"{CORE}/core.c"], depends=glob(f"{CORE}/*.h"), optional=True)])
