// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/environment.hpp>
#include <ostraka/memory/arena.hpp>

#include <algorithm>
#include <cstring>
#include <new>

namespace ostraka::memory {

Arena::Block Arena::allocate(std::int64_t bytes, Kind kind) {
  Block block;
  block.bytes = round_up(bytes, alignment, "arena: bytes");
  for (int i = 0; i < static_cast<int>(regions_.size()) && block.region < 0; ++i)
    if (const auto offset = regions_[i].free.allocate(block.bytes)) {
      block.region = i;
      block.offset = *offset;
    }
  if (block.region < 0) {
    std::byte* data = grow(block.bytes);
    regions_.push_back({data, FreeList(block.bytes)});
    reserved_ += block.bytes;
    block.region = static_cast<int>(regions_.size()) - 1;
    block.offset = *regions_.back().free.allocate(block.bytes);
  }
  block.data = regions_[block.region].data + block.offset;
  Usage& used = usage_[static_cast<int>(kind)];
  used.in_use += block.bytes;
  used.peak = std::max(used.peak, used.in_use);
  if (environment::check())
    poison(block.data, block.bytes);
  return block;
}

void Arena::release(const Block& block, Kind kind) {
  if (environment::check())
    poison(block.data, block.bytes);
  regions_[block.region].free.release(block.offset, block.bytes);
  usage_[static_cast<int>(kind)].in_use -= block.bytes;
}

namespace {

class HostArena final : public Arena {
public:
  ~HostArena() override {
    for (std::byte* data : owned_)
      ::operator delete(data, std::align_val_t(page));
  }
  runtime::Device device() const override { return runtime::Device::host; }

protected:
  std::byte* grow(std::int64_t bytes) override {
    auto* data = static_cast<std::byte*>(
        ::operator new(static_cast<std::size_t>(bytes), std::align_val_t(page), std::nothrow));
    expect(data != nullptr, Status::OUT_OF_MEMORY, "host arena: ", bytes, " bytes could not be allocated (",
           reserved(), " bytes are reserved already)");
    owned_.push_back(data);
    return data;
  }
  void poison(std::byte* data, std::int64_t bytes) override {
    std::memset(data, 0xff, static_cast<std::size_t>(bytes)); // NaN in every floating type
  }

private:
  static constexpr std::size_t page = 4096;
  std::vector<std::byte*> owned_;
};

} // namespace

std::shared_ptr<Arena> make_host_arena() { return std::make_shared<HostArena>(); }

} // namespace ostraka::memory
