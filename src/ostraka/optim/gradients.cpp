// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/memory/pinned_pool.hpp>
#include <ostraka/optim/gradients.hpp>
#include <ostraka/optim/impl/gradient_kernels.hpp>
#include <ostraka/optim/impl/groups.hpp>
#include <ostraka/optim/impl/hand_over.hpp>
#include <ostraka/optim/impl/require_gradient.hpp>
#include <ostraka/runtime/device.hpp>

#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

namespace ostraka::optim {

namespace {

using buffer::DBuffer;
using buffer::NamedState;
using States = std::span<const NamedState>;

// Runs `find` on this rank, after what must hold, and brings the results of all ranks together in one operation. When
// any rank failed, all throw that error; `arguments` is a hash that must be equal.
template <class Result, class Find>
std::vector<Result> find_everywhere(States states, const char* operation, std::int64_t arguments, Find&& find) {
  struct Record {
    Result result{};
    std::int64_t arguments = 0;
    std::int64_t has_failed = 0;
  } own;
  own.arguments = arguments;
  std::optional<Error> error;
  const NamedState& widest = widest_state(states); // all ranks have one there, whatever the order of states
  const buffer::MeshPtr& mesh = widest.main_gradient.mesh();
  try {
    for (const NamedState& state : states) {
      require_kept_gradient(state, operation);
      expect(state.main_gradient.mesh()->is_congruent(*mesh), Status::INVALID_ARGUMENT, operation, ": '",
             state.tensor_names.front(), "' is on a mesh of other ranks than '", widest.tensor_names.front(), "'");
    }
    own.result = find();
  } catch (const Error& caught) {
    error = caught;
  } catch (const std::exception& caught) { // whatever it is, the others must not wait for this rank
    error.emplace(Status::INTERNAL, caught.what());
  }
  own.has_failed = error ? 1 : 0;
  comm::Communicator& all = *mesh->communicators().all;
  std::vector<Result> results;
  bool are_equal = true;
  for (const Record& record : comm::gather(all, own)) {
    own.has_failed |= record.has_failed;
    are_equal = are_equal && record.arguments == arguments;
    results.push_back(record.result);
  }
  if (own.has_failed != 0)
    comm::agree_on_status(all, error);
  expect(are_equal, Status::RANKS_DISAGREE, operation, ": the ", all.size(),
         " ranks pass different arguments or have different states");
  return results;
}

// The part of this rank's elements that counts here: ranks of Replicate axes, which hold the same, cut it evenly.
layout::Range counted(const DBuffer& buffer) {
  std::int64_t copies = 1, place = 0;
  for (int axis = 0; axis < buffer.mesh()->dims(); ++axis)
    if (!buffer.placements()[axis].is_shard()) {
      copies *= buffer.mesh()->axis_size(axis);
      place = place * buffer.mesh()->axis_size(axis) + buffer.mesh()->coordinate(axis);
    }
  return {buffer.numel() * place / copies, buffer.numel() * (place + 1) / copies};
}

// find(execution, state, result) for every state on its device, where results are memory that hosts reach, too; waits
// for all of them at once.
template <class Result, class Find>
std::vector<Result> find_in_all(States states, const char* operation, Find&& find) {
  static auto& pool = *new memory::PinnedPool; // lives as long as the device
  std::vector<Result> results(states.size());
  std::shared_ptr<memory::Storage> pinned; // where devices write
  runtime::Event last;
  for (std::size_t s = 0; s < states.size(); ++s) {
    const auto stream = runtime::compute_stream(states[s].main_gradient.storage()->device());
    Result* place = &results[s];
    if (stream->device() != runtime::Device::host) {
      if (pinned == nullptr)
        pinned = pool.take(static_cast<std::int64_t>(states.size() * sizeof(Result)));
      place = reinterpret_cast<Result*>(pinned->data()) + s;
    }
    stream->launch(operation, [=, &find, &state = states[s], kept = pinned](const runtime::Execution& execution) {
      find(execution, state, place);
    });
    if (stream->device() != runtime::Device::host)
      last = stream->record();
  }
  runtime::synchronize(last, operation);
  for (std::size_t s = 0; s < states.size(); ++s)
    if (states[s].main_gradient.storage()->device() != runtime::Device::host)
      std::memcpy(&results[s], pinned->data() + s * sizeof(Result), sizeof(Result));
  return results;
}

kernels::NormPart own_part(States states, Norm norm) {
  kernels::NormPart sum;
  const auto parts = find_in_all<kernels::NormPart>(
      states, "gradient_norm",
      [norm](const runtime::Execution& execution, const NamedState& state, kernels::NormPart* part) {
        const DBuffer& gradient = state.main_gradient;
        const layout::Range range = counted(gradient);
        const auto* begin = static_cast<const std::byte*>(gradient.data()) + range.begin * size_of(gradient.dtype());
        kernels::norm_part(execution, norm, gradient.dtype(), begin, range.size(), part);
      });
  for (const kernels::NormPart& part : parts)
    kernels::join(norm, sum, part);
  return sum;
}

// `limit` is an argument of the operation.
void check_arguments(const char* operation, Norm norm, double limit) {
  expect(norm == Norm::l1 || norm == Norm::l2 || norm == Norm::max, Status::INVALID_ARGUMENT, operation,
         ": expected the norm l1 (1), l2 (2) or max (3), found ", static_cast<std::int32_t>(norm));
  expect(limit >= 0, Status::INVALID_ARGUMENT, operation, ": expected max_norm >= 0, found ", limit);
}

double norm_of(States states, Norm norm, const char* operation, double limit) {
  kernels::NormPart sum;
  const auto own = [&] {
    check_arguments(operation, norm, limit); // also where one rank alone is wrong
    return own_part(states, norm);
  };
  if (states.empty())
    return kernels::finish(norm, own());
  const std::int64_t arguments = Hash().add(norm).add(limit).add(states.size()).value();
  for (const auto& part : find_everywhere<kernels::NormPart>(states, operation, arguments, own))
    kernels::join(norm, sum, part);
  return kernels::finish(norm, sum);
}

// A place that compares as the order of states, tensors and elements does.
struct Place {
  std::int64_t state = std::numeric_limits<std::int64_t>::max(), tensor = 0, index = 0;
  double value = 0;

  bool is_before(const Place& other) const {
    return std::tie(state, tensor, index) < std::tie(other.state, other.tensor, other.index);
  }
};

template <class T>
std::optional<Place> first_non_finite(const DBuffer& gradient, int tensor) {
  const buffer::TensorRange own = gradient.tensor_range(tensor);
  std::vector<T> values(static_cast<std::size_t>(own.count));
  runtime::copy_now(gradient.storage()->device(), own.data, values.data(), own.count * size_of(gradient.dtype()));
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return Place{0, tensor, own.offset + static_cast<std::int64_t>(i), values[i]};
  return std::nullopt;
}

Place first_non_finite(States states) {
  const auto sums = find_in_all<double>(
      states, "check_finite", [](const runtime::Execution& execution, const NamedState& state, double* sum) {
        const DBuffer& gradient = state.main_gradient;
        kernels::add_differences(execution, gradient.dtype(), gradient.data(), gradient.numel(), sum);
      });
  for (std::size_t s = 0; s < states.size(); ++s) {
    const DBuffer& gradient = states[s].main_gradient;
    for (int t = 0; sums[s] != 0 && t < gradient.layout()->num_tensors(); ++t)
      if (auto place = gradient.dtype() == DType::f64 ? first_non_finite<double>(gradient, t)
                                                      : first_non_finite<float>(gradient, t)) {
        place->state = static_cast<std::int64_t>(s);
        return *place;
      }
  }
  return {};
}

std::string describe(const NonFinite& found) {
  return "the gradient of '" + found.parameter + "' is " +
         (std::isnan(found.value) ? "NaN"
          : found.value > 0       ? "infinite"
                                  : "-infinite") +
         " at element " + std::to_string(found.index) + " (from 0, rank " + std::to_string(found.rank) + ")";
}

} // namespace

void require_gradient(const NamedState& state, const std::string& operation) {
  expect(state.has_gradient(), Status::INVALID_STATE, operation, ": parameter '", state.tensor_names.front(),
         "' has no complete gradient; call finish_backward (of a ddp: finish_grad_sync) after the backward pass of the "
         "last micro-batch (set_last_microbatch(true)) first");
}

void require_kept_gradient(const NamedState& state, const std::string& operation) {
  require_gradient(state, operation);
  expect(!state.is_updated || !state.is_updated(), Status::INVALID_STATE, operation, ": the gradient of parameter '",
         state.tensor_names.front(), "' went into the weights while it was reduced (fuse_with_reduction)");
}

double gradient_norm(States states, Norm norm) { return norm_of(states, norm, "gradient_norm", 0); }

double clip_gradients(States states, double max_norm, Norm norm) {
  const double found = norm_of(states, norm, "clip_gradients", max_norm);
  if (!std::isfinite(found)) {
    const auto cause = find_non_finite(states);
    fail(Status::INVALID_STATE,
         "clip_gradients: ", cause ? describe(*cause) : "the norm of the gradients is beyond the numbers of f64",
         "; the gradients are as they were, so skip this step");
  }
  if (found > max_norm)
    scale_gradients(states, max_norm / (found + 1e-6));
  return found;
}

std::optional<NonFinite> find_non_finite(States states) {
  if (states.empty())
    return std::nullopt;
  const auto arguments = static_cast<std::int64_t>(states.size());
  const auto places =
      find_everywhere<Place>(states, "check_finite", arguments, [&] { return first_non_finite(states); });
  std::size_t first = 0;
  for (std::size_t r = 1; r < places.size(); ++r)
    if (places[r].is_before(places[first]))
      first = r;
  const Place& place = places[first];
  if (place.state == Place{}.state)
    return std::nullopt;
  return NonFinite{states[static_cast<std::size_t>(place.state)].tensor_names[static_cast<std::size_t>(place.tensor)],
                   place.index, static_cast<int>(first), place.value};
}

void check_finite(States states) {
  if (const auto found = find_non_finite(states))
    fail(Status::INVALID_STATE, "check_finite: ", describe(*found));
}

void scale_gradients(States states, double factor) {
  expect(std::isfinite(factor), Status::INVALID_ARGUMENT, "scale_gradients: expected a finite factor, found ", factor);
  for (const NamedState& state : states)
    require_kept_gradient(state, "scale_gradients");
  for (const NamedState& state : states)
    buffer::scale(factor, state.main_gradient, *runtime::compute_stream(state.main_gradient.storage()->device()));
  hand_over(states);
}

} // namespace ostraka::optim
