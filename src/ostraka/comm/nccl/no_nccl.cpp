// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>

namespace ostraka::comm {

bool has_nccl() { return false; }

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator>, std::string name,
                                                     std::shared_ptr<memory::Arena>, bool) {
  fail(Status::NOT_SUPPORTED, name, ": this build has no NCCL; configure with CUDA and OSTRAKA_ENABLE_NCCL=ON");
}

} // namespace ostraka::comm
