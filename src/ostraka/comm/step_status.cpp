// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/running.hpp>
#include <ostraka/comm/step_status.hpp>
#include <ostraka/runtime/progress.hpp>

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

void StepStatus::wait(runtime::Stream& compute, const runtime::Event& event, const std::string& operation,
                      const std::function<std::vector<std::string>()>& causes) {
  if (compute.device() == runtime::Device::host)
    return attempt([&] { compute.wait(event); });
  try {
    compute.wait(event);
    compute.hand_over();
    runtime::progress_all();
    const std::vector<std::string> found = causes();
    expect(found.empty(), Status::COMMUNICATION, operation, ": ", found.empty() ? "" : found.front());
  } catch (const Error& error) {
    if (error.status() == Status::TIME_OUT)
      throw;
    record(error);
  }
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
