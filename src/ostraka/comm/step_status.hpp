// SPDX-License-Identifier: Apache-2.0
// How ranks that communicate step by step fail together: what goes wrong on one of them is kept until the end of the
// step, where all agree on it, and what breaks the communication itself is the end. Source: design section 3, "Errors".
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/comm/communicator.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::comm {

class OSTRAKA_API StepStatus {
public:
  /// `owner` starts messages ("context"). `have_failed` says whether communicators cannot be used any more;
  /// `tell_peers` is called with what ended this rank, unless its peers find out by themselves.
  StepStatus(std::string owner, std::function<bool()> have_failed,
             std::function<void(const std::string&)> tell_peers = nullptr)
      : owner_(std::move(owner)), have_failed_(std::move(have_failed)), tell_peers_(std::move(tell_peers)) {}

  /// Throws FAILED with the first cause once nothing but destruction is possible, INVALID_STATE once the library or MPI
  /// was finalised.
  void require_usable() const;
  bool is_usable() const { return terminal_cause_.empty(); }
  /// Whether nothing can be communicated any more after `error`.
  bool is_terminal(const Error& error) const;
  /// Nothing is possible any more.
  void end(const Error& error);

  /// Keeps a failure of this rank; the first one counts.
  void record(const Error& error);
  /// The same where the caller's own work failed; `message` may be empty.
  void fail(const std::string& message);
  bool has_failed() const { return failure_.has_value(); }
  /// The end of what a step has started: `compute` goes on behind `event`, and hosts wait for it. What fails is kept if
  /// this rank can go on, on devices in any case, as far as it is known by now: for there hosts still agree on it, and
  /// later calls say what fails later. `causes` says why communicators cannot be used any more. TIME_OUT.
  void wait(runtime::Stream& compute, const runtime::Event& event, const std::string& operation,
            const std::function<std::vector<std::string>()>& causes);
  /// The end of a step: throws the failure of the lowest rank that has one, on every rank. Collective.
  void agree(Communicator& all);
  /// The same; and whether all ranks passed the same `value`, if none failed.
  bool agree(Communicator& all, std::int64_t value);

  /// Runs an operation that communicates; a failure of the communication itself is the end.
  template <class Body>
  void communicate(Body&& body);
  /// A failure that leaves this rank able to go on is kept for the end of the step.
  template <class Body>
  void attempt(Body&& body);

private:
  std::string owner_;
  std::function<bool()> have_failed_;
  std::function<void(const std::string&)> tell_peers_;
  std::optional<Error> failure_;
  std::string terminal_cause_;
};

template <class Body>
void StepStatus::communicate(Body&& body) {
  require_usable();
  try {
    body();
  } catch (const Error& error) {
    if (is_terminal(error))
      end(error);
    throw;
  }
}

template <class Body>
void StepStatus::attempt(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (is_terminal(error))
      throw; // the others find out by themselves
    record(error);
  } catch (const std::exception& error) {
    record(Error(Status::INTERNAL, error.what()));
  }
}

} // namespace ostraka::comm
