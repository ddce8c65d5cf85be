#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each kind of gap and expects parity_table.py to find exactly that one."""
import tempfile
import unittest
from pathlib import Path

from parity_table import Explanations, table

from operations import c_functions, cpp_operations, fortran_operations

CPP = """
/// OSTRAKA_API void in_a_comment();
class OSTRAKA_API DBuffer {
public:
  DBuffer(int);
  class OSTRAKA_API Scope { public: void nested(); private: int n; };
  DBuffer cast(DType type) const;
  bool is_valid() const { return check(); }
private:
  void hidden();
  friend void also_hidden();
};
struct Plain { void no_operation(); };
OSTRAKA_API void free_function(const DBuffer& buffer);
"""
C = """
/* ostraka_in_a_comment() */
ostraka_status_t ostraka_buffer_cast(ostraka_buffer_t buffer, int32_t type,
                                     ostraka_buffer_t* out);
ostraka_status_t ostraka_buffer_is_valid(ostraka_buffer_t buffer);
ostraka_status_t ostraka_free(ostraka_buffer_t buffer);
static inline void ostraka_config_init(void) { ostraka_hidden(); }
"""
FORTRAN = """
  type :: ostraka_buffer_t
  contains
    procedure, private :: cast_r64
    generic, public :: cast => cast_r64
    procedure, public :: is_valid ! , public :: not_this
  end type
"""
MODULE = "module ostraka\n use a, only: ostraka_buffer_t, &\n   ostraka_free\nend module\n"
NAMES = """
class DBuffer = buffer
equal buffer::free_function = ostraka_free   # another name
c ostraka_*_init : defaults
fortran ostraka_*_init : defaults
"""


class Parity(unittest.TestCase):
    def rows_and_problems(self, cpp=CPP, c=C, fortran=FORTRAN, module=MODULE, names=NAMES):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "buffer").mkdir()
            (root / "buffer/dbuffer.hpp").write_text(cpp)
            (root / "buffer.h").write_text(c)
            (root / "ostraka_buffer.f90").write_text(fortran)
            (root / "ostraka.f90").write_text(module)
            return table(cpp_operations(root), c_functions(root), fortran_operations(root), Explanations(names))

    def planted(self, expected, **texts):
        self.assertEqual(self.rows_and_problems(**texts)[1], expected)

    def test_clean(self):
        rows, problems = self.rows_and_problems()
        self.assertEqual(problems, [])
        self.assertEqual(rows, [("DBuffer::cast", "ostraka_buffer_cast", "buffer%cast", ""),
                                ("DBuffer::is_valid", "ostraka_buffer_is_valid", "buffer%is_valid", ""),
                                ("-", "ostraka_config_init", "-", "defaults; defaults"),
                                ("buffer::free_function", "ostraka_free", "ostraka_free", "")])

    def test_new_member_of_cpp(self):
        self.planted(["DBuffer::scale has no C function ostraka_buffer_scale"],
                     cpp=CPP.replace("private:\n  void", "  void scale(double factor);\nprivate:\n  void"))

    def test_new_function_of_c(self):
        self.planted(["ostraka_buffer_scale is no operation of C++", "ostraka_buffer_scale has no Fortran procedure buffer%scale"],
                     c=C + "int ostraka_buffer_scale(void);")

    def test_missing_in_fortran(self):
        self.planted(["ostraka_buffer_is_valid has no Fortran procedure buffer%is_valid"],
                     fortran=FORTRAN.replace("procedure, public :: is_valid", "procedure, private :: is_valid"))

    def test_not_handed_on(self):
        self.planted(["ostraka_free has no Fortran procedure ostraka_free"], module=MODULE.replace(", &\n   ostraka_free", ""))

    def test_fortran_alone(self):
        self.planted(["buffer%extra of Fortran is no operation of C"],
                     fortran=FORTRAN.replace("  end type", "    procedure, public :: extra\n  end type"))

    def test_stale_explanation(self):
        self.planted(["parity.txt: 'c++ DBuffer::gone' explains nothing"], names=NAMES + "c++ DBuffer::gone : why\n")
        self.planted([], names=NAMES + "c++ DBuffer::gone : later: why\n")

    def test_inside_is_no_row(self):
        rows, problems = self.rows_and_problems(cpp=CPP + "OSTRAKA_API int help();", names=NAMES + "inside buffer::help : why\n")
        self.assertEqual((problems, len(rows)), ([], 4))


if __name__ == "__main__":
    unittest.main()
