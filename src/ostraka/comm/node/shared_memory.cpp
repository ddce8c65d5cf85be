// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/environment.hpp>
#include <ostraka/comm/node/shared_memory.hpp>
#include <ostraka/layout/range.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace ostraka::comm {

using node::page;

namespace {

int rank_in(MPI_Comm group) {
  int rank = 0;
  MPI_Comm_rank(group, &rank);
  return rank;
}

int size_of(MPI_Comm group) {
  int size = 0;
  MPI_Comm_size(group, &size);
  return size;
}

// Addresses for twice the memory of the machine, since an arena has two spaces.
std::int64_t address_bytes() {
  return 2 * std::max<std::int64_t>(sysconf(_SC_PHYS_PAGES) * page(), std::int64_t{1} << 32);
}

} // namespace

/// Arithmetic on one file that all ranks map. Blocks are whole pages, so that protecting one protects no other.
class SharedMemory::Arena final : public memory::Arena {
public:
  Arena(node::Segment pages, int rank, int size)
      : memory::Arena(page()), pages_(std::move(pages)), rank_(rank), share_(rank, size, page()) {
    all().push_back(this);
  }
  ~Arena() override { std::erase(all(), this); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  runtime::Device device() const override { return runtime::Device::host; }

  bool contains(const void* address) const {
    const auto* place = static_cast<const std::byte*>(address);
    return place >= pages_.data() && place < pages_.data() + pages_.bytes();
  }

  std::int64_t offset_of(const void* address) const { return static_cast<const std::byte*>(address) - pages_.data(); }

  static std::vector<Arena*>& all() {
    static auto* arenas = new std::vector<Arena*>; // outlives objects that end with the process
    return *arenas;
  }

  void populate(std::byte* data, std::int64_t bytes) { populate(share_.take(data - pages_.data(), bytes)); }

  // A part of what is new since the last call.
  void populate_evenly(std::byte* data, std::int64_t bytes) {
    const std::int64_t half = pages_.bytes() / 2, block = data - pages_.data();
    populate(share_.take_evenly(block / half * half, block, bytes));
  }

  std::int64_t populated() const { return share_.taken(); }

protected:
  AddressSpace reserve() override {
    const std::int64_t half = pages_.bytes() / 2;
    return {pages_.data() + half * reserved_spaces_++, half};
  }
  void commit(const AddressSpace&, std::int64_t, std::int64_t) override {} // populate() does, each rank its part
  void decommit(const AddressSpace& space, std::int64_t kept, std::int64_t committed) override {
    const std::int64_t first = space.data - pages_.data();
    share_.drop(first, first + kept, first + committed);
    if (rank_ == 0)
      pages_.discard(first + kept, first + committed);
  }
  void poison(std::byte*, std::int64_t) override {} // not one rank's to write

private:
  void populate(const layout::Range& pages) {
    if (pages.size() > 0)
      pages_.populate(pages.begin, pages.end);
  }

  node::Segment pages_;
  int rank_;
  int reserved_spaces_ = 0;
  node::PageShare share_;
};

SharedMemory::SharedMemory(MPI_Comm node)
    : arena_(std::make_shared<Arena>(node::share_one(node, address_bytes()), rank_in(node), size_of(node))),
      clock_pages_(node::share_one(node, node::Clocks::bytes(size_of(node)), node::Clocks::bytes(size_of(node)))),
      clocks_(clock_pages_.data(), rank_in(node), size_of(node)),
      shares_cores_(size_of(node) > sysconf(_SC_NPROCESSORS_ONLN)) {
  clock_pages_.close_file();
}

std::shared_ptr<memory::Arena> SharedMemory::arena() const { return arena_; }

void SharedMemory::populate_evenly(const memory::Storage& storage) {
  if (storage.bytes() > 0) // else it has no address
    arena_->populate_evenly(storage.data(), storage.bytes());
}

std::int64_t SharedMemory::populated() const { return arena_->populated(); }

template <class MayGoOn>
void SharedMemory::wait(std::int64_t number, const std::string& region, const char* purpose, MayGoOn&& may_go_on) {
  if (!is_started_ || may_go_on())
    return;
  waiting_ = {number, &region, purpose};
  const auto is_over = [&, this] {
    clocks_.failure().expect_none();
    return may_go_on();
  };
  try {
    runtime::wait_until(is_over, "shared memory");
  } catch (...) {
    waiting_ = {};
    has_failed_ = true;
    throw;
  }
  waiting_ = {};
}

void SharedMemory::keep_pace() {
  constexpr Clock::duration longest = std::chrono::milliseconds(10); // some turns of the system's scheduler
  if (!shares_cores_)
    return;
  pace_.begin_stretch();
  const Clock::time_point now = Clock::now(), end = now + std::min(now - stretch_, longest);
  do {
    runtime::progress_all();
    std::this_thread::yield();
  } while (!pace_.is_kept() && Clock::now() < end);
  stretch_ = Clock::now();
}

std::string SharedMemory::pending() const {
  if (waiting_.number == 0)
    return {};
  std::string text = std::string("shared memory: ") + waiting_.purpose + " '" + *waiting_.region + "'";
  for (int k = 0; k < clocks_.size(); ++k)
    if (clocks_.now(k) < waiting_.number)
      text += ", rank " + std::to_string(k) + " of the node is at event " + std::to_string(clocks_.now(k)) + " of " +
              std::to_string(waiting_.number);
  return text;
}

void SharedMemory::expect_same(std::int64_t number, const node::Event& own) {
  const int rank = clocks_.first_different(number, own);
  if (rank == clocks_.size())
    return;
  has_failed_ = true;
  const node::Event other = clocks_.event(rank, number);
  const auto text = [this](const node::Event& event) {
    return std::string(event.kind == node::Event::Kind::write ? "an update of '" : "the end of a use of '") +
           (event.region < regions_.size() ? regions_[event.region] : "?") + "'";
  };
  fail(Status::RANKS_DISAGREE, "shared memory: event ", number, " is ", text(own), " here and ", text(other),
       " on rank ", rank, " of the node; updates and uses of weights must have the same order on all ranks");
}

std::uint32_t SharedMemory::add_region(std::string name) {
  regions_.push_back(std::move(name));
  return static_cast<std::uint32_t>(regions_.size() - 1);
}

std::optional<std::int64_t> SharedMemory::offset_of(const void* address) {
  for (const Arena* arena : Arena::all())
    if (arena->contains(address))
      return arena->offset_of(address);
  return std::nullopt;
}

// --- regions

SharedRegion::SharedRegion(std::shared_ptr<SharedMemory> memory, std::string name, std::int64_t bytes,
                           const layout::Range& own, const layout::Range& written)
    : memory_(std::move(memory)), id_(memory_->add_region(std::move(name))), clock_(memory_->clocks_, id_),
      storage_(std::make_shared<memory::Storage>(memory_->arena_, bytes, memory::Kind::parameters)), written_(written),
      is_guarded_(environment::check()) {
  memory_->arena_->populate(storage_->data() + own.begin, own.size()); // nobody may touch more before all are here
  permit(false, {0, bytes});
}

SharedRegion::~SharedRegion() { permit(true, {0, storage_->bytes()}); }

// Pages at the ends of `part` hold bytes of neighbours, too.
void SharedRegion::permit(bool writes, const layout::Range& part) const {
  if (!is_guarded_ || part.size() == 0)
    return;
  const std::int64_t begin = part.begin / page() * page();
  mprotect(storage_->data() + begin, static_cast<std::size_t>(part.end - begin),
           writes ? PROT_READ | PROT_WRITE : PROT_READ);
}

void SharedRegion::wait_written() {
  memory_->wait(clock_.last_write(), name(), "waiting for the update of", [this] { return clock_.may_read(); });
  if (compared_ == clock_.last_write())
    return;
  memory_->expect_same(clock_.last_write(), clock_.write_event());
  compared_ = clock_.last_write();
}

void SharedRegion::end_read() {
  if (memory_->is_started_)
    clock_.released();
}

void SharedRegion::begin_write() {
  memory_->wait(clock_.last_release(), name(), "waiting for the end of all uses of",
                [this] { return clock_.may_write(); });
  permit(true, written_);
}

void SharedRegion::end_write() {
  permit(false, written_);
  if (memory_->is_started_)
    clock_.written();
}

} // namespace ostraka::comm
