// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>

namespace ostraka::comm {

bool has_nccl() { return false; }

namespace {

[[noreturn]] void refuse(const std::string& name) {
  fail(Status::NOT_SUPPORTED, name, ": this build has no NCCL; configure with CUDA and OSTRAKA_ENABLE_NCCL=ON");
}

} // namespace

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator>, std::string name,
                                                     std::shared_ptr<memory::Arena>, bool, bool) {
  refuse(name);
}

std::shared_ptr<Communicator> split_nccl_communicator(Communicator&, int, std::shared_ptr<Communicator>,
                                                      std::string name) {
  refuse(name);
}

bool can_share_gpus() { return false; }
bool can_register_memory() { return false; }
std::shared_ptr<memory::Arena> make_registered_arena() { refuse("registered arena"); }

} // namespace ostraka::comm
