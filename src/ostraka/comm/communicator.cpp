// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/comm/communicator.hpp>

#include <algorithm>
#include <utility>

namespace ostraka::comm {

namespace {

// What every back end must be able to reduce, so that no result depends on which one a group of ranks has.
void check_reduction(const char* operation, DType dtype, layout::ReduceOp op) {
  expect(layout::name(op) != nullptr, Status::INVALID_ARGUMENT, operation,
         ": expected a reduction from 0 (sum) to 4 (prod), found ", static_cast<std::int32_t>(op));
  expect(op != layout::ReduceOp::mean || is_floating(dtype), Status::TYPE_MISMATCH, operation, ": the mean of ",
         ostraka::name(dtype), " is not defined");
}

// The count says all about equal pieces.
std::int64_t hash_of(const layout::Segments& pieces, std::int64_t agreement) {
  if (pieces.are_equal())
    return agreement;
  Hash hash;
  hash.add(agreement);
  for (const layout::Segments::Run& run : pieces.runs())
    hash.add(run.first).add(run.begin).add(run.length);
  return hash.value();
}

Description reduce_scatter_of(const layout::Segments& pieces, DType dtype, layout::ReduceOp op, Name name,
                              std::int64_t agreement) {
  return {.operation = "reduce-scatter",
          .count = pieces.size(),
          .dtype = dtype,
          .op = op,
          .detail = hash_of(pieces, agreement),
          .name = std::move(name)};
}

// A reduction whose results a consumer gets when it is complete.
class ConsumedAtTheEnd final : public Collective {
public:
  ConsumedAtTheEnd(std::unique_ptr<Collective> reduction, Operand out, std::int64_t count, Consumer consumer)
      : reduction_(std::move(reduction)), out_(std::move(out)), count_(count), consumer_(std::move(consumer)) {}

  bool is_stream_ordered() const override { return reduction_->is_stream_ordered(); }
  void start() override {
    reduction_->description = description; // which the back end shows to other ranks
    reduction_->mark_ready(execution());
    reduction_->start();
  }
  bool test() override {
    if (!reduction_->test())
      return false;
    consumer_(execution(), 0, count_, out_.data());
    return true;
  }
  bool will_start_again() const override { return reduction_->will_start_again(); }

private:
  std::unique_ptr<Collective> reduction_;
  Operand out_;
  std::int64_t count_;
  Consumer consumer_;
};

// Operations given up while the message passing library may still write into their memory: never freed.
void quarantine(std::shared_ptr<Collective> operation) {
  static auto* kept = new std::vector<std::shared_ptr<Collective>>;
  kept->push_back(std::move(operation));
}

} // namespace

std::string Description::text() const {
  std::string text = std::string(operation) + " of " + std::to_string(count) + " " + ostraka::name(dtype);
  if (name != nullptr)
    text += " of '" + *name + "'";
  return text;
}

void Communicator::check_pieces(const char* operation, const layout::Segments& pieces) const {
  expect(pieces.count() == size_, Status::INVALID_ARGUMENT, name_, ": ", operation, ": expected ", size_,
         " pieces, one per rank, found ", pieces.count());
}

void Communicator::allgather(runtime::Stream& stream, Operand in, Operand out, const layout::Segments& pieces,
                             DType dtype, Name name, std::int64_t agreement) {
  check_pieces("allgather", pieces);
  enqueue(stream,
          {.operation = "allgather",
           .count = pieces.size(),
           .dtype = dtype,
           .detail = hash_of(pieces, agreement),
           .name = std::move(name)},
          [&] { return make_allgather(std::move(in), std::move(out), pieces, dtype); });
}

void Communicator::reduce_scatter(runtime::Stream& stream, Operand in, Operand out, const layout::Segments& pieces,
                                  DType dtype, layout::ReduceOp op, Name name, std::int64_t agreement) {
  check_pieces("reduce-scatter", pieces);
  check_reduction("reduce-scatter", dtype, op);
  enqueue(stream, reduce_scatter_of(pieces, dtype, op, std::move(name), agreement),
          [&] { return make_reduce_scatter(std::move(in), std::move(out), pieces, dtype, op); });
}

void Communicator::reduce_scatter(runtime::Stream& stream, Operand in, Operand out, const layout::Segments& pieces,
                                  DType dtype, layout::ReduceOp op, Consumer consumer, Name name,
                                  std::int64_t agreement) {
  check_pieces("reduce-scatter", pieces);
  check_reduction("reduce-scatter", dtype, op);
  expect(group_ == nullptr, Status::NOT_SUPPORTED, name_,
         ": reduce-scatter: a consumer cannot be part of a group; call it before or after the group");
  enqueue(stream, reduce_scatter_of(pieces, dtype, op, std::move(name), agreement), [&] {
    return make_consumed_reduce_scatter(std::move(in), std::move(out), pieces, dtype, op, std::move(consumer));
  });
}

std::unique_ptr<Collective> Communicator::make_consumed_reduce_scatter(Operand in, Operand out,
                                                                       const layout::Segments& pieces, DType dtype,
                                                                       layout::ReduceOp op, Consumer consumer) {
  const std::int64_t count = pieces.range(rank_).size();
  return std::make_unique<ConsumedAtTheEnd>(make_reduce_scatter(std::move(in), out, pieces, dtype, op), out, count,
                                            std::move(consumer));
}

void Communicator::allreduce(runtime::Stream& stream, Operand in, Operand out, std::int64_t count, DType dtype,
                             layout::ReduceOp op, Name name, std::int64_t agreement) {
  check_reduction("allreduce", dtype, op);
  enqueue(stream,
          {.operation = "allreduce",
           .count = count,
           .dtype = dtype,
           .op = op,
           .detail = agreement,
           .name = std::move(name)},
          [&] { return make_allreduce(std::move(in), std::move(out), count, dtype, op); });
}

void Communicator::broadcast(runtime::Stream& stream, Operand data, std::int64_t bytes, int root, Name name) {
  expect(root >= 0 && root < size_, Status::INVALID_ARGUMENT, name_, ": broadcast: expected a root in [0, ", size_,
         "), found ", root);
  enqueue(stream, {.operation = "broadcast", .count = bytes, .detail = root, .name = std::move(name)},
          [&] { return make_broadcast(std::move(data), bytes, root); });
}

void Communicator::exchange(runtime::Stream& stream, Operand in, std::vector<Transfer> sends, Operand out,
                            std::vector<Transfer> receives, DType dtype, std::int64_t agreement, Name name) {
  const auto [sent, sent_to_itself] = check_transfers(sends);
  const auto [count, received_from_itself] = check_transfers(receives);
  expect(sent_to_itself == received_from_itself, Status::INVALID_ARGUMENT, name_, ": exchange: rank ", rank_, " sends ",
         sent_to_itself, " elements to itself and receives ", received_from_itself);
  enqueue(stream,
          {.operation = "exchange", .count = count, .dtype = dtype, .detail = agreement, .name = std::move(name)},
          [&] { return make_exchange(std::move(in), std::move(sends), std::move(out), std::move(receives), dtype); });
}

// Elements of all transfers, and of those with this rank itself.
std::pair<std::int64_t, std::int64_t> Communicator::check_transfers(const std::vector<Transfer>& transfers) const {
  std::int64_t count = 0, own = 0;
  std::vector<bool> seen(static_cast<std::size_t>(size_));
  for (std::size_t k = 0; k < transfers.size(); ++k) {
    const auto [peer, offset, elements] = transfers[k];
    expect(peer >= 0 && peer < size_, Status::INVALID_ARGUMENT, name_, ": exchange: expected a peer in [0, ", size_,
           "), found ", peer);
    expect(offset >= 0 && elements >= 0, Status::INVALID_ARGUMENT, name_,
           ": exchange: expected an offset and a count >= 0, found ", offset, " and ", elements);
    if (k == 0 || transfers[k - 1].peer != peer) {
      expect(!seen[static_cast<std::size_t>(peer)], Status::INVALID_ARGUMENT, name_, ": exchange: transfers of rank ",
             peer, " do not stand together");
      seen[static_cast<std::size_t>(peer)] = true;
    }
    count += elements;
    own += peer == rank_ ? elements : 0;
  }
  return {count, own};
}

template <class Make>
void Communicator::enqueue(runtime::Stream& stream, Description description, Make&& make) {
  expect(failure_.empty(), Status::FAILED, name_, ": ", description.operation,
         " refused, since the communicator failed earlier: ", failure_);
  if (group_ == nullptr)
    return start_later(
        stream,
        std::shared_ptr<Collective>(make().release(), std::default_delete<Collective>(), Recycling<Collective>()),
        std::move(description));
  expect(&stream == &group_->stream_, Status::INVALID_ARGUMENT, name_, ": ", description.operation,
         ": operations of a group must be on its stream");
  group_->parts_.push_back(make());
  group_->parts_.back()->description = description;
  description.count += group_->description_.count;
  group_->description_ = std::move(description);
}

void Communicator::start_later(runtime::Stream& stream, std::shared_ptr<Collective> task, Description description) {
  description.sequence = sequence_++;
  task->description = std::move(description);
  fifo_.push_back(task);
  stream.submit(std::move(task));
  progress(); // what can start starts now, or nothing would overlap with what the caller does next
}

std::unique_ptr<Collective> Communicator::make_group(std::vector<std::unique_ptr<Collective>>) {
  fail(Status::INTERNAL, name_, ": this back end does not aggregate operations");
}

bool Communicator::rendezvous(const memory::Storage& storage) {
  expect(failure_.empty(), Status::FAILED, name_,
         ": rendezvous refused, since the communicator failed earlier: ", failure_);
  runtime::wait_until([&] { return fifo_.empty() || !failure_.empty(); }, name_ + ": rendezvous");
  return failure_.empty() && register_memory(storage);
}

Group::Group(Communicator& communicator, runtime::Stream& stream)
    : communicator_(communicator.aggregates() ? &communicator : nullptr), stream_(stream) {
  if (communicator_ == nullptr)
    return;
  expect(communicator.group_ == nullptr, Status::INVALID_STATE, communicator.name(), ": a group is open already");
  communicator.group_ = this;
}

Group::~Group() {
  try {
    submit();
  } catch (const std::exception& cause) { // the communicator has failed before
    log::warn(cause.what());
  }
}

void Group::submit() {
  Communicator* const communicator = std::exchange(communicator_, nullptr);
  if (communicator == nullptr)
    return;
  communicator->group_ = nullptr;
  if (parts_.empty())
    return;
  expect(communicator->failure().empty(), Status::FAILED, communicator->name(),
         ": group refused, since the communicator failed earlier: ", communicator->failure());
  communicator->start_later(stream_, communicator->make_group(std::move(parts_)), std::move(description_));
}

void Communicator::progress() noexcept {
  try {
    if (failure_.empty())
      watch();
    advance();
  } catch (...) {
    give_up(std::current_exception());
    tell_peers(failure_);
  }
}

void Communicator::advance() {
  for (auto& operation : fifo_) {
    if (!operation->is_started) {
      if (!operation->is_ready())
        break; // starts are in call order
      if (runtime::trace::is_tracing())
        operation->started_at = runtime::trace::Clock::now();
      operation->is_started = true; // even if it fails half way: messages may be in flight
      operation->start();
    }
    if (!operation->is_done() && operation->test()) {
      operation->finish();
      if (operation->execution().device != runtime::Device::host)
        queued_ = operation->description;
      trace(*operation);
    }
    if (!operation->is_done() && operation->will_start_again())
      break;
  }
  while (!fifo_.empty() && fifo_.front()->is_done())
    fifo_.pop_front();
}

// Operations in flight together share a track, on which events must not overlap: each begins where the last one ended.
void Communicator::trace(const Collective& operation) {
  if (!runtime::trace::is_tracing())
    return;
  const auto now = runtime::trace::Clock::now();
  runtime::trace::record(name_, operation.description.text(), std::max(operation.started_at, traced_until_), now);
  traced_until_ = now;
}

std::string Communicator::pending() const {
  if (fifo_.empty())
    return is_busy() ? name_ + " (rank " + std::to_string(rank_) + " of " + std::to_string(size_) +
                           "): " + queued_.text() + ", on the device"
                     : "";
  const Collective& first = *fifo_.front();
  return name_ + " (rank " + std::to_string(rank_) + " of " + std::to_string(size_) + "): " + first.description.text() +
         (first.is_started ? ", started" : ", not started") +
         (fifo_.size() > 1 ? " and " + std::to_string(fifo_.size() - 1) + " more" : "");
}

void Communicator::abandon(const std::string& cause) noexcept {
  if (!fifo_.empty() || is_busy())
    give_up(std::make_exception_ptr(Error(Status::FAILED, cause)));
}

void Communicator::give_up(std::exception_ptr error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& cause) {
    failure_ = cause.what();
  } catch (...) {
    failure_ = "an unknown exception";
  }
  log::warn(name_ + ": " + failure_);
  abort();
  for (auto& operation : fifo_) {
    if (operation->is_done())
      continue;
    operation->finish(error);
    if (operation->is_started)
      quarantine(operation);
  }
  fifo_.clear();
}

} // namespace ostraka::comm
