// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/running.hpp>
#include <ostraka/comm/step_status.hpp>

#include <utility>

namespace ostraka::comm {

void StepStatus::require_usable() const {
  expect(is_usable(), Status::FAILED, owner_, ": it failed earlier and can only be destroyed: ", terminal_cause_);
  require_running(owner_.c_str());
}

bool StepStatus::is_terminal(const Error& error) const {
  const Status status = error.status();
  return status == Status::TIME_OUT || status == Status::COMMUNICATION || status == Status::FAILED || have_failed_();
}

void StepStatus::end(const Error& error) {
  if (!is_usable())
    return;
  terminal_cause_ = error.what();
  if (tell_peers_ && error.status() != Status::TIME_OUT) // peers run into that by themselves
    tell_peers_(terminal_cause_);
}

void StepStatus::record(const Error& error) {
  if (!failure_) // the first cause is the one to report
    failure_ = error;
}

void StepStatus::fail(const std::string& message) {
  record(Error(Status::USER_FAILURE, message.empty() ? "the caller reported a failure" : message));
}

void StepStatus::agree(Communicator& all) {
  const std::optional<Error> failure = std::exchange(failure_, std::nullopt);
  agree_on_status(all, failure);
}

bool StepStatus::agree(Communicator& all, std::int64_t value) {
  const std::optional<Error> failure = std::exchange(failure_, std::nullopt);
  return agree_on_status(all, failure, value);
}

} // namespace ostraka::comm
