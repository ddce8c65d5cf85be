// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/nccl/impl/launch.hpp>
#include <ostraka/comm/nccl/nccl_communicator.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/progress.hpp>

#include <cstring>

namespace ostraka::comm {

namespace {

using nccl::LinePtr;
using nccl::Part;

// Gives NCCL's communicator back, in the order in which hosts do, or ends it where that is not to be had.
void destroy(nccl::Line& line) {
  if (line.comm == nullptr)
    return;
  try {
    line.check(ncclCommFinalize(line.comm), "ncclCommFinalize");
    runtime::wait_until([&] { return line.is_idle(); }, line.name + ": ncclCommFinalize");
    line.check(ncclCommDestroy(line.comm), "ncclCommDestroy");
  } catch (const std::exception& cause) {
    log::warn(cause.what());
    ncclCommAbort(line.comm);
  }
  line.comm = nullptr;
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

void connect(nccl::Line& line, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0; // a rank that does not come must not hang the others
  config.commName = line.name.c_str();
  try {
    line.check(ncclCommInitRankConfig(&line.comm, line.size, id, line.rank, &config), "ncclCommInitRankConfig");
    runtime::wait_until([&] { return line.is_idle(); }, line.name + ": start of NCCL");
  } catch (...) {
    if (line.comm != nullptr)
      ncclCommAbort(line.comm);
    line.comm = nullptr;
    throw;
  }
}

} // namespace

bool has_nccl() { return true; }

std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, std::string name,
                                                     std::shared_ptr<memory::Arena> arena, bool checks) {
  const auto line = std::make_shared<nccl::Line>();
  line->rank = host->rank();
  line->size = host->size();
  line->name = std::move(name);
  line->host = std::move(host);
  line->arena = std::move(arena);
  const ncclUniqueId id = agree_on_id(*line->host, *line);
  together(*line->host, [&] { connect(*line, id); });
  return std::make_shared<NcclCommunicator>(line, checks);
}

} // namespace ostraka::comm
