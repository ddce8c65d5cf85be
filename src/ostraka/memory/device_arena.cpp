// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/memory/device_arena.hpp>
#include <ostraka/runtime/cuda_memory.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

namespace ostraka::memory {

namespace {

using runtime::cuda::Handle;

// One range of addresses per space, as large as the memory of the GPU, behind which memory grows piece by piece: blocks
// never move.
class DeviceArena final : public Arena {
public:
  ~DeviceArena() override {
    wait_for_device();
    for (const Piece& piece : pieces_)
      runtime::cuda::unmap(piece.data, piece.bytes, piece.handle);
    for (const AddressSpace& space : spaces_)
      runtime::cuda::free_addresses(space.data, space.bytes);
  }
  runtime::Device device() const override { return runtime::Device::cuda; }

protected:
  AddressSpace reserve() override {
    const std::int64_t bytes = round_to_pages(runtime::cuda::total_memory());
    spaces_.push_back({runtime::cuda::reserve(bytes), bytes});
    return spaces_.back();
  }

  // Pieces are given back as they came, so there may be more than is committed.
  void commit(const AddressSpace& space, std::int64_t, std::int64_t bytes) override {
    const std::int64_t begin = mapped(space);
    const std::int64_t end = std::min(round_to_pages(bytes), space.bytes);
    if (end <= begin)
      return;
    Piece piece{space.data + begin, end - begin, 0};
    piece.handle = runtime::cuda::map(piece.data, piece.bytes);
    pieces_.push_back(piece);
  }

  void decommit(const AddressSpace& space, std::int64_t kept, std::int64_t) override {
    wait_for_device();
    std::erase_if(pieces_, [&](const Piece& piece) {
      const bool is_beyond = is_in(piece, space) && piece.data >= space.data + kept;
      if (is_beyond)
        runtime::cuda::unmap(piece.data, piece.bytes, piece.handle);
      return is_beyond;
    });
  }

  void poison(std::byte* data, std::int64_t bytes) override { poison_on_device(data, bytes); }

private:
  struct Piece {
    std::byte* data;
    std::int64_t bytes;
    Handle handle;
  };

  static bool is_in(const Piece& piece, const AddressSpace& space) {
    return piece.data >= space.data && piece.data < space.data + space.bytes;
  }

  std::int64_t mapped(const AddressSpace& space) const {
    std::int64_t end = 0;
    for (const Piece& piece : pieces_)
      if (is_in(piece, space))
        end = std::max(end, piece.data + piece.bytes - space.data);
    return end;
  }

  static std::int64_t round_to_pages(std::int64_t bytes) {
    return round_up(bytes, runtime::cuda::granularity(), "device arena: bytes");
  }

  std::vector<AddressSpace> spaces_;
  std::vector<Piece> pieces_;
};

} // namespace

std::shared_ptr<Arena> make_device_arena() {
  runtime::require_device(runtime::Device::cuda, "device arena");
  return std::make_shared<DeviceArena>();
}

void poison_on_device(std::byte* data, std::int64_t bytes) noexcept {
  try {
    runtime::compute_stream(runtime::Device::cuda)->launch("poison", [=](const runtime::Execution& execution) {
      runtime::cuda::fill(execution, data, 0xff, bytes);
    });
  } catch (const std::exception& cause) {
    log::warn(std::string("memory of the device is not filled with NaN: ") + cause.what());
  }
}

void wait_for_device() noexcept {
  try {
    runtime::synchronize(runtime::compute_stream(runtime::Device::cuda)->record(), "memory of the device");
  } catch (const std::exception& cause) {
    log::warn(std::string("memory of the device: ") + cause.what());
  }
}

std::shared_ptr<Arena> make_arena(runtime::Device device) {
  return device == runtime::Device::host ? make_host_arena() : make_device_arena();
}

} // namespace ostraka::memory
