#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each kind of difference and expects symbols.py to find exactly that one."""
import unittest

from symbols import compare

HEADER = """
/* ostraka_in_a_comment() */
#define OSTRAKA_MACRO(x) ostraka_in_a_macro(x)
ostraka_status_t ostraka_layout_size(ostraka_layout_t layout,
                                     int64_t* size);
ostraka_status_t ostraka_mesh_create(MPI_Comm comm);
ostraka_status_t ostraka_config_init_versioned(ostraka_config_t* config, int64_t size);
static inline ostraka_status_t ostraka_config_init(ostraka_config_t* config) {
  return ostraka_config_init_versioned(config, 8);
}
"""
MODULE = """
integer function c_layout_size(layout, size) &
  bind(c, name='ostraka_layout_size')
  ! bind(c, name='ostraka_in_a_comment')
function c_config_init() BIND(C, name="ostraka_config_init_versioned")
"""
TESTS = "ostraka_layout_size(layout, &size); ostraka_mesh_create(comm); INIT(ostraka_config_init)"
EXPORTED = {"ostraka_layout_size", "ostraka_mesh_create", "ostraka_config_init_versioned", "OSTRAKA_0"}


class Symbols(unittest.TestCase):
    def planted(self, expected, header=HEADER, module=MODULE, tests=TESTS, exported=frozenset(EXPORTED)):
        self.assertEqual(compare(header, module, tests, set(exported))[1], expected)

    def test_clean(self):
        self.planted([])
        self.assertEqual(len(compare(HEADER, MODULE, TESTS, EXPORTED)[0]), 1 + 4)

    def test_not_exported(self):
        self.planted(["ostraka_layout_size is declared in a C header but not exported"],
                     exported=EXPORTED - {"ostraka_layout_size"})

    def test_exported_too_much(self):
        self.planted(["_ZN7ostraka4failEv is exported but not declared in a C header"],
                     exported=EXPORTED | {"_ZN7ostraka4failEv"})

    def test_not_bound(self):
        self.planted(["ostraka_layout_size is not bound in the Fortran module"],
                     module=MODULE.replace("ostraka_layout_size", "strlen"))

    def test_bound_to_nothing(self):
        self.planted(["ostraka_old is bound in the Fortran module but not declared in a C header"],
                     module=MODULE + "bind(c, name='ostraka_old')")

    def test_stale_exception(self):
        self.planted(["ostraka_mesh_create is bound in the Fortran module: take it off the list of exceptions"],
                     module=MODULE + "bind(c, name='ostraka_mesh_create')")

    def test_untested(self):
        self.planted(["ostraka_layout_size is not called in tests/capi"],
                     tests=TESTS.replace("ostraka_layout_size", "ostraka_layout_size_f"))


if __name__ == "__main__":
    unittest.main()
