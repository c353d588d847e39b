"""Builds the recording core of `plait.batch` where a compiler is present; without one everything works, slower."""  # noqa: E501

from setuptools import Extension, setup

setup(ext_modules=[Extension("plait.batching._core", ["src/plait/batching/_core.c"], optional=True)])
