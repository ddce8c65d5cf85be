# Copyright Spack Project Developers. See COPYRIGHT file for details.
#
# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Ostraka(CMakePackage, CudaPackage):
    """Sharded distributed buffers for MPI codes: network weights, gradients and optimizer state
    cut over all ranks, gathered just before use and reduced just behind it. For Fortran, C and
    C++, built on Kokkos and MPI."""

    # The clone that this recipe is in, until there is a release to fetch.
    git = pathlib.Path(__file__).resolve().parents[5].as_uri()
    homepage = git

    test_requires_compiler = True
    sanity_check_is_file = [join_path("include", "ostraka", "ostraka.h")]

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="Message passing between ranks; always needed")
    variant("shared", default=True, description="Shared libraries; always needed")
    variant("fortran", default=True, description="Fortran module")
    variant("hdf5", default=True, description="Checkpoints in HDF5 files")
    variant("nccl", default=False, when="+cuda", description="Collectives of GPU memory by NCCL")

    conflicts("~mpi", msg="ostraka has no build without MPI")
    conflicts("~shared", msg="ostraka is shared, for one Kokkos in a process")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("nlohmann-json@3.10:", type="build")
    depends_on("cli11@2.1:", type="build")
    depends_on("googletest@1.12:", type="test")
    depends_on("python@3.9:", type="test")
    depends_on("pkgconfig", type="test")

    depends_on("mpi")
    depends_on("hdf5@1.10.2:", when="+hdf5")
    depends_on("kokkos@4.5: +shared")
    depends_on("kokkos +cuda", when="+cuda")
    depends_on("kokkos ~cuda", when="~cuda")
    requires("^kokkos +cuda_lambda", when="+cuda ^kokkos@:4")

    generator("ninja")

    # Kokkos is for one architecture, and knows none with a suffix (90a).
    conflicts("cuda_arch=none", when="+cuda", msg="ostraka +cuda needs a cuda_arch, like 90")
    for _arch in CudaPackage.cuda_arch_values:
        depends_on(f"kokkos cuda_arch={_arch}", when=f"+cuda cuda_arch={_arch}")
        depends_on(f"nccl +cuda cuda_arch={_arch}", when=f"+nccl cuda_arch={_arch}")
        if not _arch.isdigit():
            conflicts(f"cuda_arch={_arch}", msg=f"Kokkos has no cuda_arch={_arch}")
        for _other in CudaPackage.cuda_arch_values:
            if _arch < _other:
                conflicts(
                    f"cuda_arch={_arch},{_other}",
                    msg="Kokkos can be built for one cuda_arch only, hence ostraka, too",
                )

    def cmake_args(self):
        # The C++ compiler stays Spack's also with CUDA: only the kernels go to nvcc, by Kokkos.
        return [
            self.define_from_variant("OSTRAKA_ENABLE_FORTRAN", "fortran"),
            self.define_from_variant("OSTRAKA_ENABLE_HDF5", "hdf5"),
            self.define("OSTRAKA_BUILD_TOOLS", True),
            self.define_from_variant("OSTRAKA_ENABLE_CUDA", "cuda"),
            self.define_from_variant("OSTRAKA_ENABLE_NCCL", "nccl"),
            self.define("OSTRAKA_BUILD_TESTS", self.run_tests),
            self.define("OSTRAKA_BUILD_EXAMPLES", self.run_tests),
            self.define("Kokkos_ROOT", self.spec["kokkos"].prefix),
        ]

    @run_after("install")
    def keep_examples(self):
        cache_extra_test_sources(self, [join_path("examples", name) for name in self.examples])

    # Folder of each smoke test: its program.
    examples = {
        join_path("c", "first_step"): "first_step_c",
        join_path("cpp", "first_buffer"): "first_buffer",
        join_path("fortran", "first_step"): "first_step",
    }

    def run_example(self, folder, languages):
        """Configures, builds and runs an example against the installation."""
        program = self.examples[folder]
        source = join_path(self.test_suite.current_test_cache_dir, "examples", folder)
        cmake = which(self.spec["cmake"].prefix.bin.cmake, required=True)
        compilers = [self.define(f"CMAKE_{lang}_COMPILER", path) for lang, path in languages]
        with working_dir(f"build-{program}", create=True):
            cmake(
                source,
                self.define("Ostraka_ROOT", self.prefix),
                self.define("MPI_HOME", self.spec["mpi"].prefix),
                *compilers,
            )
            cmake("--build", ".")
            which(join_path(".", program), required=True)()

    def test_c(self):
        """a program in C is built against the installation and runs on one rank"""
        self.run_example(join_path("c", "first_step"), [("C", self["c"].cc)])

    def test_cpp(self):
        """a program in C++ is built against the installation and runs on one rank"""
        languages = [("C", self["c"].cc), ("CXX", self["cxx"].cxx)]
        self.run_example(join_path("cpp", "first_buffer"), languages)

    def test_fortran(self):
        """a program in Fortran is built against the installation and runs on one rank"""
        if self.spec.satisfies("~fortran"):
            raise SkipTest("the Fortran module was not built")
        languages = [("C", self["c"].cc), ("Fortran", self["fortran"].fortran)]
        self.run_example(join_path("fortran", "first_step"), languages)
