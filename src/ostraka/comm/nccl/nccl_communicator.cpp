// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/nccl/impl/launch.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/progress.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace ostraka::comm {

namespace {

using nccl::LinePtr;
using nccl::Part;

// Gives NCCL's communicator back, in the order in which hosts do, or ends it where that is not to be had.
void destroy(nccl::Line& line) {
  if (line.comm == nullptr)
    return;
  try {
    for (const nccl::Window& one : line.windows)
      if (one.window != nullptr)
        line.check(ncclCommWindowDeregister(line.comm, one.window), "ncclCommWindowDeregister");
    runtime::wait_until([&] { return line.is_idle(); }, line.name + ": ncclCommWindowDeregister");
    line.check(ncclCommFinalize(line.comm), "ncclCommFinalize");
    runtime::wait_until([&] { return line.is_idle(); }, line.name + ": ncclCommFinalize");
    line.check(ncclCommDestroy(line.comm), "ncclCommDestroy");
  } catch (const std::exception& cause) {
    log::warn(cause.what());
    ncclCommAbort(line.comm);
  }
  line.comm = nullptr;
  line.windows.clear();
}

class NcclCommunicator final : public Communicator {
public:
  NcclCommunicator(LinePtr line, bool checks)
      : Communicator(line->name, line->rank, line->size), line_(std::move(line)), checks_(checks) {}

  ~NcclCommunicator() override {
    try {
      runtime::synchronize(line_->last, name().c_str());
    } catch (const std::exception& cause) {
      log::warn(name() + ": " + cause.what());
    }
    abandon(name() + ": destroyed with operations that have not started");
    destroy(*line_);
  }

  const nccl::Line& line() const { return *line_; }
  bool checks() const { return checks_; }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                             DType dtype) override {
    return launch(nccl::make_allgather(line_, std::move(in), std::move(out), pieces, dtype));
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                                                  layout::ReduceOp op) override {
    return launch(nccl::make_reduce_scatter(line_, std::move(in), std::move(out), pieces, dtype, op));
  }
  std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                             layout::ReduceOp op) override {
    return launch(nccl::make_allreduce(line_, std::move(in), std::move(out), count, dtype, op));
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return launch(nccl::make_broadcast(line_, std::move(data), bytes, root));
  }
  std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                            std::vector<Transfer> receives, DType dtype) override {
    return launch(
        nccl::make_exchange(line_, std::move(in), std::move(sends), std::move(out), std::move(receives), dtype));
  }

  // All ranks register, or none: NCCL waits for all, and uses windows where a rank has one.
  bool register_memory(const memory::Storage& storage) override {
    const auto memory = nccl::allocation_of(storage);
    if (std::int64_t bytes = memory ? memory->bytes : 0; !are_equal(*line_->host, bytes) || bytes == 0)
      return false;
    drop_windows();
    auto& windows = line_->windows;
    const auto found =
        std::find_if(windows.begin(), windows.end(), [&](const auto& one) { return one.memory == memory; });
    agree_on_value(*line_->host, found - windows.begin(), name() + ": rendezvous: what was registered before");
    if (found != windows.end())
      return found->window != nullptr;
    together(*line_->host, [&] { windows.push_back({memory, open_window(*memory)}); });
    return windows.back().window != nullptr;
  }

  bool aggregates() const override { return !checks_; }
  std::unique_ptr<Collective> make_group(std::vector<std::unique_ptr<Collective>> launches) override {
    std::vector<std::unique_ptr<Part>> parts;
    for (auto& one : launches) {
      auto* const launched = dynamic_cast<nccl::Launch*>(one.get());
      expect(launched != nullptr, Status::NOT_SUPPORTED, name(), ": a consumer cannot be part of a group");
      for (auto& part : std::move(*launched).take_parts())
        parts.push_back(std::move(part));
    }
    return std::make_unique<nccl::Launch>(line_, std::move(parts));
  }

  bool is_busy() const override { return line_->comm != nullptr && !line_->last.is_done(); }
  void watch() override {
    if (line_->comm != nullptr)
      line_->is_idle(); // throws where an operation has failed, perhaps long after it was queued
  }
  void abort() noexcept override {
    if (line_->comm != nullptr)
      ncclCommAbort(line_->comm); // what is queued on streams ends, with whatever it has moved
    line_->comm = nullptr;
  }

private:
  // Gives back windows on memory that nobody has any more, on any rank.
  void drop_windows() {
    auto& windows = line_->windows;
    const std::size_t number = windows.size(), ranks = static_cast<std::size_t>(line_->size);
    std::vector<char> own(number), all(number * ranks);
    for (std::size_t k = 0; k < number; ++k)
      own[k] = windows[k].memory.use_count() == 1;
    if (number > 0)
      gather_bytes(*line_->host, own.data(), number, all.data());
    std::vector<nccl::Window> kept;
    for (std::size_t k = 0; k < number; ++k) {
      bool is_unused = true;
      for (std::size_t peer = 0; peer < ranks; ++peer)
        is_unused = is_unused && all[peer * number + k] != 0;
      if (!is_unused)
        kept.push_back(windows[k]);
      else if (windows[k].window != nullptr)
        close_window(windows[k].window);
    }
    windows = std::move(kept);
  }

  void close_window(ncclWindow_t window) const {
    runtime::wait_until([&] { return line_->is_idle(); }, name() + ": rendezvous");
    line_->check(ncclCommWindowDeregister(line_->comm, window), "ncclCommWindowDeregister");
  }

  ncclWindow_t open_window(const nccl::Allocation& memory) const {
    runtime::wait_until([&] { return line_->is_idle(); }, name() + ": rendezvous");
    ncclWindow_t window = nullptr; // which NCCL writes when it is idle again
    line_->check(ncclCommWindowRegister(line_->comm, memory.data, static_cast<std::size_t>(memory.bytes), &window,
                                        NCCL_WIN_COLL_SYMMETRIC),
                 "ncclCommWindowRegister");
    runtime::wait_until([&] { return line_->is_idle(); }, name() + ": ncclCommWindowRegister");
    return window;
  }

  std::unique_ptr<Collective> launch(std::unique_ptr<Part> part) const {
    std::vector<std::unique_ptr<Part>> parts;
    parts.push_back(std::move(part));
    auto operation = std::make_unique<nccl::Launch>(line_, std::move(parts));
    return checks_ ? nccl::make_checked(line_, std::move(operation)) : std::move(operation);
  }

  LinePtr line_;
  bool checks_;
};

// Made by the first rank. Travels as numbers.
ncclUniqueId agree_on_id(Communicator& host, const nccl::Line& line) {
  ncclUniqueId id{};
  together(host, [&] {
    if (line.rank == 0)
      line.check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  });
  std::vector<std::int64_t> numbers((sizeof id + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
  std::memcpy(numbers.data(), &id, sizeof id);
  numbers = from_first_rank(host, numbers);
  std::memcpy(&id, numbers.data(), sizeof id);
  return id;
}

ncclConfig_t config_of(const nccl::Line& line) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0; // a rank that does not come must not hang the others
  config.commName = line.name.c_str();
  config.splitShare = line.shares ? 1 : 0; // NCCL looks at the one that is split
  return config;
}

template <class Start>
void connect(nccl::Line& line, Start&& start) {
  try {
    start();
    runtime::wait_until([&] { return line.is_idle(); }, line.name + ": start of NCCL");
  } catch (...) {
    if (line.comm != nullptr)
      ncclCommAbort(line.comm);
    line.comm = nullptr;
    throw;
  }
}

void connect(nccl::Line& line, const ncclUniqueId& id) {
  ncclConfig_t config = config_of(line);
  connect(line, [&] {
    line.check(ncclCommInitRankConfig(&line.comm, line.size, id, line.rank, &config), "ncclCommInitRankConfig");
  });
}

// NCCL writes the new communicator when the old one is idle again.
void split(nccl::Line& line, const nccl::Line& parent, int color) {
  ncclConfig_t config = config_of(line);
  connect(line, [&] {
    parent.check(ncclCommSplit(parent.comm, color, line.rank, &line.comm, &config), "ncclCommSplit");
    runtime::wait_until([&] { return parent.is_idle(); }, line.name + ": ncclCommSplit");
  });
}

LinePtr make_line(std::shared_ptr<Communicator> host, std::string name, std::shared_ptr<memory::Arena> arena,
                  bool shares) {
  auto line = std::make_shared<nccl::Line>();
  line->rank = host->rank();
  line->size = host->size();
  line->name = std::move(name);
  line->host = std::move(host);
  line->arena = std::move(arena);
  line->shares = shares;
  return line;
}

} // namespace

bool has_nccl() { return true; }

bool can_share_gpus() {
  int version = 0;
  const char* const asked = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return asked != nullptr && std::string(asked) == "1" && ncclGetVersion(&version) == ncclSuccess && version >= 23000;
}

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, std::string name,
                                                     std::shared_ptr<memory::Arena> arena, bool checks, bool shares) {
  const LinePtr line = make_line(std::move(host), std::move(name), std::move(arena), shares);
  const ncclUniqueId id = agree_on_id(*line->host, *line);
  together(*line->host, [&] { connect(*line, id); });
  return std::make_shared<NcclCommunicator>(line, checks);
}

std::shared_ptr<Communicator> split_nccl_communicator(Communicator& parent, int color,
                                                      std::shared_ptr<Communicator> host, std::string name) {
  auto* const from = dynamic_cast<NcclCommunicator*>(&parent);
  expect(from != nullptr, Status::INVALID_ARGUMENT, name, ": ", parent.name(), " is none of NCCL");
  const nccl::Line& whole = from->line();
  const LinePtr line = make_line(std::move(host), std::move(name), whole.arena, whole.shares);
  together(*whole.host, [&] { split(*line, whole, color); });
  return std::make_shared<NcclCommunicator>(line, from->checks());
}

} // namespace ostraka::comm
