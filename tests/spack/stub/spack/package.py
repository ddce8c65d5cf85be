# SPDX-License-Identifier: Apache-2.0
"""What recipes import from Spack, as far as a recipe can be looked at without it: directives are recorded, decorators and
helpers do what the tests need."""
import os

records = []  # (directive, positional arguments, keyword arguments) in order


def _directive(name):
    def record(*args, **kwargs):
        records.append((name, args, kwargs))
    return record


for _name in ("build_system", "conflicts", "depends_on", "license", "maintainers", "patch", "requires",
              "variant", "version"):
    globals()[_name] = _directive(_name)


class SkipTest(Exception):
    pass


def join_path(*parts):
    return os.path.join(*parts)


def run_after(phase):
    return lambda method: setattr(method, "after", phase) or method


cached = []  # folders given to cache_extra_test_sources


def cache_extra_test_sources(_package, folders):
    cached.extend(folders)


__all__ = [name for name in globals() if not name.startswith("_") and name not in ("os", "records", "cached")]
