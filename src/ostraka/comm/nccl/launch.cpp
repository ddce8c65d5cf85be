// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/comm/nccl/impl/launch.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>

namespace ostraka::comm::nccl {

const std::shared_ptr<memory::Storage>& Line::take_scratch(std::int64_t bytes) {
  if (scratch != nullptr && scratch->bytes() >= bytes)
    return scratch;
  scratch = std::make_shared<memory::Storage>(arena, bytes, memory::Kind::transient); // users of the old one keep it
  if (environment::check())                                                           // the compute stream fills it
    runtime::synchronize(runtime::compute_stream(arena->device())->record(), "scratch of NCCL");
  return scratch;
}

void Line::check(ncclResult_t code, const char* operation) const {
  if (code == ncclSuccess || code == ncclInProgress)
    return;
  const char* detail = ncclGetLastError(comm);
  fail(Status::COMMUNICATION, name, ": ", operation, ": NCCL: ", ncclGetErrorString(code),
       detail != nullptr && *detail != '\0' ? std::string(" (") + detail + ")" : "");
}

bool Line::is_idle() const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
  check(state, "an operation");
  return state != ncclInProgress;
}

Launch::Launch(LinePtr line, std::vector<std::unique_ptr<Part>> parts)
    : line_(std::move(line)), parts_(std::move(parts)) {
  std::int64_t bytes = 0;
  for (const auto& part : parts_) {
    offsets_.push_back(bytes);
    bytes += round_up(part->scratch_bytes(), memory::Arena::alignment, "nccl: scratch");
  }
  if (bytes > 0)
    scratch_ = line_->take_scratch(bytes);
}

void Launch::start() {
  const auto stream = static_cast<cudaStream_t>(execution().native);
  if (line_->last_stream != nullptr && line_->last_stream != execution().native)
    runtime::wait(execution(), line_->last); // scratch is used by one operation after the other
  for (std::size_t k = 0; k < parts_.size(); ++k)
    parts_[k]->before(execution(), scratch_of(k));
  line_->check(ncclGroupStart(), "ncclGroupStart");
  try {
    for (std::size_t k = 0; k < parts_.size(); ++k)
      parts_[k]->issue(stream, scratch_of(k));
  } catch (...) {
    ncclGroupEnd();
    throw;
  }
  line_->check(ncclGroupEnd(), description.operation);
}

bool Launch::test() {
  if (!line_->is_idle())
    return false;
  for (std::size_t k = 0; k < parts_.size(); ++k)
    parts_[k]->after(execution(), scratch_of(k));
  line_->last = runtime::record(execution());
  line_->last_stream = execution().native;
  is_queued_ = true;
  return true;
}

} // namespace ostraka::comm::nccl
