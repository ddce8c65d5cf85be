// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/node_arena.hpp>
#include <ostraka/comm/node/process.hpp>
#include <ostraka/comm/node/segment.hpp>

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

namespace ostraka::comm::node {

std::uint64_t process_token() {
  static const std::uint64_t token = [] {
    std::random_device device;
    return (std::uint64_t{device()} << 32 | device()) ^ static_cast<std::uint64_t>(getpid());
  }();
  return token;
}

std::vector<std::uint64_t> gather_tokens(MPI_Comm group) {
  int size = 0;
  MPI_Comm_size(group, &size);
  std::vector<std::uint64_t> tokens(static_cast<std::size_t>(size));
  const std::uint64_t own = process_token();
  check_mpi(MPI_Allgather(&own, 1, MPI_UINT64_T, tokens.data(), 1, MPI_UINT64_T, group), "node: tokens");
  return tokens;
}

namespace {

// The processes of an arena and where their files are mapped here.
class NodeArena final : public memory::Arena {
public:
  NodeArena(std::uint64_t id, std::vector<std::uint64_t> tokens, std::vector<Segment> segments, int rank)
      : id_(id), tokens_(std::move(tokens)), segments_(std::move(segments)), rank_(rank) {
    all().push_back(this);
  }
  ~NodeArena() override { std::erase(all(), this); }

  runtime::Device device() const override { return runtime::Device::host; }

  std::uint64_t id() const { return id_; }
  const Segment& own() const { return segments_[static_cast<std::size_t>(rank_)]; }
  std::byte* base(std::uint64_t token) const {
    const auto found = std::find(tokens_.begin(), tokens_.end(), token);
    expect(found != tokens_.end(), Status::INTERNAL, "node arena: no process has the token ", token);
    return segments_[static_cast<std::size_t>(found - tokens_.begin())].data();
  }

  static std::vector<NodeArena*>& all() {
    static auto* arenas = new std::vector<NodeArena*>; // outlives objects that end with the process
    return *arenas;
  }

protected:
  // One file holds both address spaces.
  AddressSpace reserve() override {
    const std::int64_t half = own().bytes() / 2 / page() * page();
    return {own().data() + half * reserved_spaces_++, half};
  }

  void commit(const AddressSpace& space, std::int64_t committed, std::int64_t bytes) override {
    const std::int64_t first = space.data - own().data();
    const std::int64_t begin = round_up(committed, page(), "node arena: bytes");
    const std::int64_t end = std::min(round_up(bytes, page(), "node arena: bytes"), space.bytes);
    segments_[static_cast<std::size_t>(rank_)].populate(first + begin, first + end);
  }

  void decommit(const AddressSpace& space, std::int64_t kept, std::int64_t committed) override {
    const std::int64_t first = space.data - own().data();
    segments_[static_cast<std::size_t>(rank_)].discard(first + round_up(kept, page(), "node arena: bytes"),
                                                       first + committed);
  }

  void poison(std::byte* data, std::int64_t bytes) override {
    std::memset(data, 0xff, static_cast<std::size_t>(bytes)); // NaN in every floating type
  }

private:
  std::uint64_t id_;
  std::vector<std::uint64_t> tokens_; ///< [rank of the node]
  std::vector<Segment> segments_;     ///< [rank of the node]
  int rank_;
  int reserved_spaces_ = 0;
};

} // namespace

std::shared_ptr<memory::Arena> make_node_arena(MPI_Comm node) {
  static std::uint64_t number = 0;
  int rank = 0, size = 0;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  std::vector<std::uint64_t> tokens = gather_tokens(node);
  std::uint64_t id = process_token() + ++number;
  check_mpi(MPI_Bcast(&id, 1, MPI_UINT64_T, 0, node), "node arena: number");
  // Addresses for twice the even share of the machine's memory, in each of the two spaces.
  const std::int64_t memory = sysconf(_SC_PHYS_PAGES) * page();
  const std::int64_t bytes = std::max<std::int64_t>(4 * (memory / size), std::int64_t{1} << 32);
  std::vector<Segment> segments = share(node, bytes / page() * page());
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank)
      segments[static_cast<std::size_t>(peer)].close_file();
  return std::make_shared<NodeArena>(id, std::move(tokens), std::move(segments), rank);
}

std::optional<Location> locate(const void* address) {
  const auto* place = static_cast<const std::byte*>(address);
  for (const NodeArena* arena : NodeArena::all()) {
    const Segment& own = arena->own();
    if (place >= own.data() && place < own.data() + own.bytes())
      return Location{arena->id(), place - own.data()};
  }
  return std::nullopt;
}

std::byte* resolve(std::uint64_t token, const Location& location) {
  for (const NodeArena* arena : NodeArena::all())
    if (arena->id() == location.arena)
      return arena->base(token) + location.offset;
  fail(Status::INTERNAL, "node arena: no arena has the number ", location.arena);
}

} // namespace ostraka::comm::node
