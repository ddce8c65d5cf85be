// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/log.hpp>
#include <ostraka/comm/communicator.hpp>

#include <vector>

namespace ostraka::comm {

namespace {

std::string label(const char* operation, std::int64_t count, DType dtype) {
  return std::string(operation) + " of " + std::to_string(count) + " " + ostraka::name(dtype);
}

// What every back end must be able to reduce, so that no result depends on which one a group of ranks has.
void check_reduction(const char* operation, DType dtype, Reduction reduction) {
  expect(dtype != DType::f16, Status::NOT_SUPPORTED, operation, ": f16 is not reduced by this version");
  expect(reduction != Reduction::mean || is_floating(dtype), Status::TYPE_MISMATCH, operation, ": the average of ",
         ostraka::name(dtype), " is not defined");
  expect(reduction == Reduction::sum || reduction == Reduction::mean || dtype == DType::i64, Status::NOT_SUPPORTED,
         operation, ": max and min are provided for i64 only, found ", ostraka::name(dtype));
}

// Operations given up while the message passing library may still write into their memory: never freed.
void quarantine(std::shared_ptr<Collective> operation) {
  static auto* kept = new std::vector<std::shared_ptr<Collective>>;
  kept->push_back(std::move(operation));
}

} // namespace

void Communicator::allgather(runtime::Stream& stream, Operand in, Operand out, std::int64_t count, DType dtype) {
  enqueue(stream, make_allgather(std::move(in), std::move(out), count, dtype), label("allgather", count, dtype));
}

void Communicator::reduce_scatter(runtime::Stream& stream, Operand in, Operand out, std::int64_t count, DType dtype,
                                  Reduction reduction) {
  check_reduction("reduce-scatter", dtype, reduction);
  expect(reduction == Reduction::sum || reduction == Reduction::mean, Status::NOT_SUPPORTED,
         "reduce-scatter: expected sum or mean");
  enqueue(stream, make_reduce_scatter(std::move(in), std::move(out), count, dtype, reduction),
          label("reduce-scatter", count, dtype));
}

void Communicator::allreduce(runtime::Stream& stream, Operand data, std::int64_t count, DType dtype,
                             Reduction reduction) {
  check_reduction("allreduce", dtype, reduction);
  enqueue(stream, make_allreduce(std::move(data), count, dtype, reduction), label("allreduce", count, dtype));
}

void Communicator::broadcast(runtime::Stream& stream, Operand data, std::int64_t bytes, int root) {
  expect(root >= 0 && root < size_, Status::INVALID_ARGUMENT, name_, ": broadcast: expected a root in [0, ", size_,
         "), found ", root);
  enqueue(stream, make_broadcast(std::move(data), bytes, root), label("broadcast", bytes, DType::u8));
}

void Communicator::enqueue(runtime::Stream& stream, std::unique_ptr<Collective> operation, std::string label) {
  expect(!has_failed(), Status::FAILED, name_, ": ", label,
         " refused, since the communicator failed earlier: ", failure_);
  std::shared_ptr<Collective> task = std::move(operation);
  task->label = std::move(label);
  fifo_.push_back(task);
  stream.submit(task);
  progress(); // what can start starts now, or nothing would overlap with what the caller does next
}

void Communicator::progress() noexcept {
  try {
    advance();
  } catch (...) {
    give_up(std::current_exception());
  }
}

void Communicator::advance() {
  for (auto& operation : fifo_) {
    if (!operation->is_started) {
      if (!operation->is_ready())
        break; // starts are in call order
      operation->start();
      operation->is_started = true;
    }
    if (!operation->is_done() && operation->test())
      operation->finish();
    if (!operation->is_done() && operation->will_start_again())
      break;
  }
  while (!fifo_.empty() && fifo_.front()->is_done())
    fifo_.pop_front();
}

std::string Communicator::pending() const {
  if (fifo_.empty())
    return "";
  const Collective& first = *fifo_.front();
  return name_ + " (rank " + std::to_string(rank_) + " of " + std::to_string(size_) + "): " + first.label +
         (first.is_started ? ", started" : ", not started") +
         (fifo_.size() > 1 ? " and " + std::to_string(fifo_.size() - 1) + " more" : "");
}

void Communicator::abandon(const std::string& cause) noexcept {
  if (!fifo_.empty())
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
  for (auto& operation : fifo_) {
    operation->finish(error);
    if (operation->is_started)
      quarantine(operation);
  }
  fifo_.clear();
}

} // namespace ostraka::comm
