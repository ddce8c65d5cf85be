// SPDX-License-Identifier: Apache-2.0
// Instantiates the one public header with Kokkos, also under nvcc. Only compiled.
#include <ostraka/buffer/kokkos_view.hpp>

namespace ostraka::buffer {

template HostView<double*> local_view<double>(const DBuffer&);
template HostView<const float*> tensor_range<const float>(const DBuffer&, int);
template HostView<bfloat16**> tensor_view<bfloat16, 2>(const DBuffer&, int);
template HostView<const float16***> tensor_view<const float16, 3>(const DBuffer&, int);

} // namespace ostraka::buffer
