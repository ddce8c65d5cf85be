// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/comm/nccl/impl/registered.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>
#include <ostraka/memory/device_arena.hpp>
#include <ostraka/runtime/cuda_memory.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::comm {

namespace {

using nccl::Allocation;

class RegisteredArena final : public memory::Arena {
public:
  runtime::Device device() const override { return runtime::Device::cuda; }
  bool is_symmetric() const override { return true; }

  // Never one that was used before: whether memory has a window must not depend on what else a rank has released.
  Block allocate(std::int64_t bytes, memory::Kind kind) override {
    const std::int64_t size = round_up(bytes, NCCL_WIN_REQUIRED_ALIGNMENT, "registered arena: bytes");
    pieces_.push_back(std::make_shared<Allocation>(size));
    count(kind, size);
    const Block block{pieces_.back()->data, size, 0};
    if (environment::check())
      poison(block.data, size);
    return block;
  }

  // (A window on it keeps it until its communicator lets go.)
  void release(const Block& block, memory::Kind kind) override {
    if (environment::check())
      poison(block.data, block.bytes);
    pieces_.erase(piece_at(block.data));
    count(kind, -block.bytes);
  }

  void trim() override {}

  std::int64_t reserved() const override {
    std::int64_t bytes = 0;
    for (const auto& piece : pieces_)
      bytes += piece->bytes;
    return bytes;
  }

  std::shared_ptr<Allocation> allocation_at(const std::byte* data) {
    const auto found = piece_at(data);
    return found == pieces_.end() ? nullptr : *found;
  }

protected:
  AddressSpace reserve() override { return {}; }
  void commit(const AddressSpace&, std::int64_t, std::int64_t) override {}
  void decommit(const AddressSpace&, std::int64_t, std::int64_t) override {}

  void poison(std::byte* data, std::int64_t bytes) override { memory::poison_on_device(data, bytes); }

private:
  using Pieces = std::vector<std::shared_ptr<Allocation>>;
  Pieces::iterator piece_at(const std::byte* data) {
    return std::find_if(pieces_.begin(), pieces_.end(), [&](const auto& piece) { return piece->data == data; });
  }

  Pieces pieces_;
};

void check(ncclResult_t code, const std::string& operation) {
  expect(code == ncclSuccess, code == ncclUnhandledCudaError ? Status::OUT_OF_MEMORY : Status::COMMUNICATION, operation,
         ": NCCL: ", ncclGetErrorString(code));
}

int version() {
  int found = 0;
  return ncclGetVersion(&found) == ncclSuccess ? found : 0;
}

} // namespace

namespace nccl {

Allocation::Allocation(std::int64_t size) : bytes(size) {
  runtime::cuda::total_memory(); // makes the GPU of this process current
  void* found = nullptr;
  check(ncclMemAlloc(&found, static_cast<std::size_t>(bytes)), "ncclMemAlloc of " + std::to_string(bytes) + " bytes");
  data = static_cast<std::byte*>(found);
}

Allocation::~Allocation() {
  memory::wait_for_device();
  ncclMemFree(data);
}

std::shared_ptr<Allocation> allocation_of(const memory::Storage& storage) {
  auto* const arena = dynamic_cast<RegisteredArena*>(storage.arena().get());
  return arena == nullptr || !storage.is_allocated() || storage.bytes() == 0 ? nullptr
                                                                             : arena->allocation_at(storage.data());
}

} // namespace nccl

bool can_register_memory() {
  return version() >= 23007;
} // symmetric kernels before it lack a synchronisation in graphs

std::shared_ptr<memory::Arena> make_registered_arena() { return std::make_shared<RegisteredArena>(); }

} // namespace ostraka::comm
