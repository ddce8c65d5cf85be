# SPDX-License-Identifier: Apache-2.0
"""The parts of CMakePackage that cmake_args uses, with the results that Spack documents."""


def generator(*_names, **_options):
    """A directive of this build system: spack.package has none of that name."""


class CMakePackage:
    run_tests = False

    def __init__(self, spec):
        self.spec = spec

    def __getitem__(self, name):
        return self.spec[name]

    @staticmethod
    def define(name, value):
        kind = "BOOL" if isinstance(value, bool) else "STRING"
        text = {True: "ON", False: "OFF"}[value] if kind == "BOOL" else str(value)
        return f"-D{name}:{kind}={text}"

    def define_from_variant(self, name, variant):
        if variant not in self.spec.known:
            raise KeyError(f"{variant} is not a variant")
        # A conditional variant that is not active: nothing is defined.
        return self.define(name, self.spec.variants[variant]) if variant in self.spec.variants else ""
