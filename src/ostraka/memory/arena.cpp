// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/environment.hpp>
#include <ostraka/memory/arena.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ostraka::memory {

Arena::Block Arena::allocate(std::int64_t bytes, Kind kind) {
  Block block;
  block.bytes = round_up(bytes, granularity_, "arena: bytes");
  Space& in = space(kind);
  auto offset = in.free.allocate(block.bytes);
  if (!offset) {
    grow(in, block.bytes - in.free.trailing());
    offset = in.free.allocate(block.bytes);
  }
  block.offset = *offset;
  block.data = in.addresses.data + block.offset;
  count(kind, block.bytes);
  if (environment::check())
    poison(block.data, block.bytes);
  return block;
}

void Arena::release(const Block& block, Kind kind) {
  if (environment::check())
    poison(block.data, block.bytes);
  space(kind).free.release(block.offset, block.bytes);
  count(kind, -block.bytes);
}

void Arena::count(Kind kind, std::int64_t bytes) {
  Usage& used = usage_[static_cast<int>(kind)];
  used.in_use += bytes;
  used.peak = std::max(used.peak, used.in_use);
}

void Arena::grow(Space& space, std::int64_t bytes) {
  if (space.addresses.data == nullptr)
    space.addresses = reserve();
  const std::int64_t committed = space.free.capacity();
  expect(bytes <= space.addresses.bytes - committed, Status::OUT_OF_MEMORY, "arena: ", bytes,
         " more bytes do not fit into the memory of this machine (", reserved(), " bytes are in use by this arena)");
  commit(space.addresses, committed, committed + bytes);
  space.free.extend(bytes);
  ++growths_;
}

void Arena::trim() {
  for (Space& space : spaces_)
    if (const std::int64_t bytes = space.free.shrink(); bytes > 0)
      decommit(space.addresses, space.free.capacity(), space.free.capacity() + bytes);
}

namespace {

// One range of addresses per space, as large as the machine's memory; pages come with their first use. So blocks never
// move, and the arena has no holes between chunks of its own.
class HostArena final : public Arena {
public:
  ~HostArena() override {
    for (const AddressSpace& space : owned_)
      munmap(space.data, static_cast<std::size_t>(space.bytes));
  }
  runtime::Device device() const override { return runtime::Device::host; }

protected:
  AddressSpace reserve() override {
    constexpr std::int64_t least = std::int64_t{1} << 26;
    std::int64_t bytes = sysconf(_SC_PHYS_PAGES) * page();
    for (; bytes >= least; bytes = bytes / 2 / page() * page()) { // a limit on addresses (ulimit -v) may be lower
      const auto size = static_cast<std::size_t>(bytes);
      // Twice as much, half of which is given back: everybody else needs addresses too.
      void* data = mmap(nullptr, 2 * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (data != MAP_FAILED) {
        munmap(static_cast<std::byte*>(data) + size, size);
        owned_.push_back({static_cast<std::byte*>(data), bytes});
        return owned_.back();
      }
    }
    fail(Status::OUT_OF_MEMORY, "host arena: no ", least, " bytes of addresses could be reserved");
  }

  void commit(const AddressSpace& space, std::int64_t committed, std::int64_t bytes) override {
    const std::int64_t begin = round_up(committed, page(), "host arena: bytes");
    const std::int64_t end = std::min(round_up(bytes, page(), "host arena: bytes"), space.bytes);
    if (end > begin)
      expect(mprotect(space.data + begin, static_cast<std::size_t>(end - begin), PROT_READ | PROT_WRITE) == 0,
             Status::OUT_OF_MEMORY, "host arena: ", end - begin, " bytes could not be allocated (", reserved(),
             " bytes are in use by this arena)");
  }

  void decommit(const AddressSpace& space, std::int64_t kept, std::int64_t committed) override {
    const std::int64_t begin = round_up(kept, page(), "host arena: bytes");
    if (committed > begin)
      madvise(space.data + begin, static_cast<std::size_t>(committed - begin), MADV_DONTNEED);
  }

  void poison(std::byte* data, std::int64_t bytes) override {
    std::memset(data, 0xff, static_cast<std::size_t>(bytes)); // NaN in every floating type
  }

private:
  static std::int64_t page() {
    static const std::int64_t bytes = sysconf(_SC_PAGESIZE);
    return bytes;
  }

  std::vector<AddressSpace> owned_;
};

} // namespace

std::shared_ptr<Arena> make_host_arena() { return std::make_shared<HostArena>(); }

} // namespace ostraka::memory
