# SPDX-License-Identifier: Apache-2.0
"""CudaPackage: its values, and the variants that it brings."""
from spack.package import variant


class CudaPackage:
    cuda_arch_values = ("70", "75", "80", "86", "90", "90a", "100", "100a", "120")
    variant("cuda", default=False, description="Build with CUDA")
    variant("cuda_arch", default="none", multi=True, when="+cuda")
