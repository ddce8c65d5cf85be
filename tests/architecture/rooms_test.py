#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plants each kind of violation in a small house and expects rooms.py to find exactly that one."""
import tempfile
import unittest
from pathlib import Path

from rooms import MAX_LINES, House

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
CLEAN = {
    "src/ostraka/base/error.hpp": "namespace ostraka {\n}\n",
    "src/ostraka/base/export.hpp": "#pragma once\n#define OSTRAKA_API \\\n  nothing\n",
    "src/ostraka/base/log.hpp": "namespace ostraka::log {\n}\n",
    "src/ostraka/layout/shape.hpp": "#include <ostraka/base/error.hpp>\nnamespace ostraka::layout {\n}\n",
    "src/ostraka/layout/impl/secret.hpp": "namespace ostraka::layout::impl {\n}\n",
    "src/ostraka/layout/shape.cpp": "#include <ostraka/layout/impl/secret.hpp>\nnamespace ostraka::layout {\n}\n",
    "src/ostraka/runtime/kokkos_execution.hpp": "#include <Kokkos_Core.hpp>\nnamespace ostraka::runtime {\n}\n",
    "src/ostraka/runtime/cuda_stream.cpp": "#include <cuda_runtime_api.h>\nnamespace ostraka::runtime {\n}\n",
    "src/ostraka/comm/mpi/mpi.hpp": "#include <mpi.h>\nnamespace ostraka::comm {\n}\n",
    "src/ostraka/mesh/mesh.hpp": "#include <mpi.h>\n#include <ostraka/comm/mpi/mpi.hpp>\nnamespace ostraka::mesh {\n}\n",
    "src/ostraka/buffer/kernels.cpp":
        "#include <ostraka/runtime/kokkos_execution.hpp>\nnamespace ostraka::buffer {\n}\n",
    "src/ostraka/buffer/buffer.hpp": "#include <ostraka/mesh/mesh.hpp>\nnamespace ostraka::buffer {\n}\n",
    "src/ostraka/fsdp/module.hpp": "#include <ostraka/buffer/buffer.hpp>\nnamespace ostraka::fsdp {\n}\n",
    "src/ostraka/optim/sgd.hpp": "#include <ostraka/buffer/buffer.hpp>\nnamespace ostraka::optim {\n}\n",
    "capi/include/ostraka/types.h": "#include <stdint.h>\n",
    "capi/src/wall.hpp": "#include <ostraka/base/error.hpp>\nnamespace ostraka::capi {\n}\n",
    "capi/src/fsdp.cpp":
        '#include "wall.hpp"\n#include <ostraka/types.h>\n#include <ostraka/fsdp/module.hpp>\nextern "C" {\n}\n',
    "fortran/ostraka_mpi_f08.f90": "use mpi_f08\n",
    "fortran/ostraka_mesh.f90": "use ostraka_mpi_f08\n! use mpi\n",
    "examples/c/step.c": "#include <ostraka/types.h>\n#include <mpi.h>\n",
    "tests/CMakeLists.txt": "",
}
TIERS = ("target_sources(ostraka_pure PRIVATE ostraka/layout/shape.cpp)\n"
         "target_sources(ostraka_mpi PRIVATE)\n"
         "target_sources(\n  ostraka_device\n  PRIVATE ostraka/buffer/kernels.cpp\n          ostraka/runtime/cuda_stream.cpp)\n")


def violations(changes):
    """Of the clean house with `changes`: file -> text, or file -> None without the SPDX line."""
    files = {**CLEAN, "src/CMakeLists.txt": TIERS, **changes}
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#pragma once\n" if text is None else SPDX + text)
        return House(root).check()


class Rooms(unittest.TestCase):
    def planted(self, file, text, words):
        found = violations({file: text})
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(file + ": "), found)
        self.assertIn(words, found[0])

    def test_clean(self):
        self.assertEqual(violations({}), [])

    def test_room_to_the_right(self):
        self.planted("src/ostraka/base/log.hpp",
                     "#include <ostraka/layout/shape.hpp>\nnamespace ostraka::log {\n}\n", "not to its left")

    def test_siblings(self):
        self.planted("src/ostraka/optim/sgd.hpp",
                     "#  include <ostraka/fsdp/module.hpp>\nnamespace ostraka::optim {\n}\n", "not to its left")
        self.planted("src/ostraka/ddp/buckets.hpp",
                     "#include <ostraka/fsdp/module.hpp>\nnamespace ostraka::ddp {\n}\n", "not to its left")

    def test_private_folder(self):
        self.planted("src/ostraka/buffer/buffer.hpp",
                     "#include <ostraka/layout/impl/secret.hpp>\nnamespace ostraka::buffer {\n}\n", "private to room")

    def test_private_folder_from_capi(self):
        self.planted("capi/src/wall.hpp",
                     "#include <ostraka/layout/impl/secret.hpp>\nnamespace ostraka::capi {\n}\n", "private to room")

    def test_quotes(self):
        self.planted("src/ostraka/layout/shape.hpp",
                     '#include "../base/error.hpp"\nnamespace ostraka::layout {\n}\n', "<ostraka/...> form")

    def test_missing_header(self):
        self.planted("src/ostraka/layout/shape.hpp",
                     "#include <ostraka/base/nothing.hpp>\nnamespace ostraka::layout {\n}\n", "does not exist")

    def test_c_header_in_the_library(self):
        self.planted("src/ostraka/base/log.hpp",
                     "#include <ostraka/types.h>\nnamespace ostraka::log {\n}\n", "C interface")

    def test_cpp_header_in_a_c_header(self):
        self.planted("capi/include/ostraka/types.h", "#include <ostraka/base/error.hpp>\n", "C++ library")

    def test_mpi(self):
        self.planted("src/ostraka/comm/backend.hpp", "#include <mpi.h>\nnamespace ostraka::comm {\n}\n", "mpi.h")

    def test_mpi_of_the_pure_rooms(self):
        found = violations({"src/ostraka/layout/shape.hpp": "#include <mpi.h>\nnamespace ostraka::layout {\n}\n"})
        self.assertEqual(len(found), 2, found)  # the include, and that a pure room reaches it

    def test_nccl(self):
        self.planted("src/ostraka/comm/backend.hpp", "#include <nccl.h>\nnamespace ostraka::comm {\n}\n", "nccl.h")

    def test_cuda(self):
        self.planted("src/ostraka/buffer/buffer.hpp",
                     "#include <cuda_runtime.h>\nnamespace ostraka::buffer {\n}\n", "cuda_runtime.h")

    def test_kokkos_in_a_public_header(self):
        found = violations({"src/ostraka/buffer/buffer.hpp":
                            "#include <Kokkos_Core.hpp>\nnamespace ostraka::buffer {\n}\n"})
        self.assertIn("src/ostraka/buffer/buffer.hpp: a public header includes Kokkos_Core.hpp", found)
        self.assertIn("src/ostraka/fsdp/module.hpp: reaches Kokkos through what it includes", found)

    def test_kokkos_in_base(self):
        found = violations({"src/ostraka/base/log.hpp": "#include <Kokkos_Half.hpp>\nnamespace ostraka::log {\n}\n"})
        self.assertIn("src/ostraka/base/log.hpp: room base includes Kokkos_Half.hpp", found)

    def test_kokkos_in_a_c_header(self):
        found = violations({"capi/include/ostraka/types.h": "#include <Kokkos_Core.hpp>\n"})
        self.assertIn("capi/include/ostraka/types.h: room capi includes Kokkos_Core.hpp", found)

    def test_kernel_header_in_a_public_header(self):
        found = violations({"src/ostraka/buffer/buffer.hpp":
                            "#include <ostraka/runtime/kokkos_execution.hpp>\nnamespace ostraka::buffer {\n}\n"})
        self.assertTrue(any("which is for kernels" in line for line in found), found)

    def test_namespaces(self):
        self.planted("src/ostraka/layout/shape.hpp", "namespace ostraka::fsdp {\n}\n", "opens namespace ostraka::fsdp")
        self.planted("src/ostraka/layout/shape.hpp", "namespace ostraka {\n}\n", "opens namespace ostraka;")
        self.planted("src/ostraka/layout/shape.hpp", "int x;\n", "opens no namespace")
        self.planted("src/ostraka/base/log.hpp", "namespace ostraka::layout {\n}\n", "opens namespace ostraka::layout")
        self.planted("capi/src/wall.hpp", "namespace ostraka::base {\n}\n", "opens namespace ostraka::base")

    def test_an_unknown_room(self):
        self.planted("src/ostraka/attic/box.hpp", "namespace ostraka::attic {\n}\n", "is in no room")

    def test_starting_mpi(self):
        self.planted("src/ostraka/mesh/mesh.hpp", "namespace ostraka::mesh {\nMPI_Init(0, 0);\n}\n", "belongs to the app")

    def test_waiting_in_mpi(self):
        self.planted("src/ostraka/comm/mpi/mpi.hpp", "namespace ostraka::comm {\nMPI_Waitall();\n}\n", "wait loop")

    def test_words_in_comments_and_strings_are_no_calls(self):
        text = 'namespace ostraka::mesh {\n// MPI_Init(0, 0)\n/* MPI_Wait(x) */ auto t = "MPI_Init(0)";\n}\n'
        self.assertEqual(violations({"src/ostraka/mesh/mesh.hpp": text}), [])

    def test_extern_c(self):
        self.planted("src/ostraka/mesh/mesh.hpp", 'namespace ostraka::mesh {\nextern "C" {\n}\n}\n', "belongs in capi")

    def test_tiers(self):
        wrong = TIERS.replace("ostraka_device", "ostraka_pure")
        self.assertIn("src/ostraka/buffer/kernels.cpp: needs Kokkos but is in tier pure",
                      violations({"src/CMakeLists.txt": wrong}))
        self.planted("src/ostraka/mesh/forgotten.cpp", "namespace ostraka::mesh {\n}\n", "is in 0 tiers")
        mpi = "#include <ostraka/comm/mpi/mpi.hpp>\nnamespace ostraka::comm {\n}\n"
        tiers = TIERS.replace("ostraka/layout/shape.cpp", "ostraka/layout/shape.cpp ostraka/comm/all.cpp")
        self.assertEqual(violations({"src/CMakeLists.txt": tiers, "src/ostraka/comm/all.cpp": mpi}),
                         ["src/ostraka/comm/all.cpp: needs MPI but is in tier pure"])

    def test_fortran(self):
        for line in ("use mpi", "  USE MPI_F08, only: MPI_Comm", "use, intrinsic :: mpi", "include 'mpif.h'"):
            self.planted("fortran/ostraka_mesh.f90", line + "\n", "uses MPI's module")

    def test_examples(self):
        self.planted("examples/c/step.c", "#include <ostraka/layout/impl/secret.hpp>\n", "not installed")
        self.planted("examples/c/step.c", '#include "../../src/ostraka/base/none.hpp"\n', "not beside it")

    def test_spdx(self):
        self.planted("src/ostraka/base/export.hpp", None, "no SPDX line")
        self.planted("examples/c/CMakeLists.txt", None, "no SPDX line")
        self.planted("tests/helper.py", None, "no SPDX line")

    def test_length(self):
        self.planted("src/ostraka/base/export.hpp", "\n" * MAX_LINES, f"has {MAX_LINES + 1} lines")
        self.assertEqual(violations({"src/ostraka/base/export.hpp": "\n" * (MAX_LINES - 1)}), [])


if __name__ == "__main__":
    unittest.main()
