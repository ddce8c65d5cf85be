// SPDX-License-Identifier: Apache-2.0
// A random module tree and everything that is done with it: a pure function of a seed and the number of ranks. Knows
// nothing of the library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ostraka::fsdp::test::trees {

class Random {
public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int limit) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(limit)); }
  int from(int low, int high) { return low + below(high - low + 1); }
  bool one_in(int odds) { return below(odds) == 0; }
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<int>(choices.size()))];
  }

private:
  std::mt19937_64 engine_;
};

/// A number that depends on all parts.
inline std::uint64_t mix(std::initializer_list<std::int64_t> parts) {
  std::uint64_t h = 1469598103934665603ull;
  for (const std::int64_t part : parts)
    h = (h ^ static_cast<std::uint64_t>(part)) * 1099511628211ull, h ^= h >> 29;
  return h;
}

/// A multiple of 1/8 below 2 in size: exact in every type.
inline double short_fraction(std::initializer_list<std::int64_t> parts) {
  return (static_cast<double>(mix(parts) % 31) - 15) / 8;
}

enum class Type { f64, f32, bf16 };

struct ParameterPlan {
  std::vector<std::string> names; ///< the second one is tied to the first
  std::vector<std::int64_t> shape;
  Type storage = Type::f64;
  bool is_trainable = true;
  double slope = 0; ///< of contributions, by the weight

  std::int64_t size() const {
    std::int64_t size = 1;
    for (const std::int64_t extent : shape)
      size *= extent;
    return size;
  }
};

struct ModulePlan {
  int parent = -1;
  int depth = 0;
  std::vector<ParameterPlan> parameters;
  bool is_dense = false; ///< parameters are the weight and the bias of a dense layer
  bool allows_unused = false;
  double divisor = 1;
  std::optional<std::optional<std::int64_t>> prefetch; ///< where it differs from the context's

  bool is_trainable() const {
    return std::any_of(parameters.begin(), parameters.end(), [](const auto& p) { return p.is_trainable; });
  }
};

struct Use {
  int module;
  bool goes_back;                ///< else it is a forward pass alone
  std::vector<char> is_skipped;  ///< [rank]
  std::vector<char> is_left_out; ///< [parameter]: nobody asks for its gradient
};

enum class Recompute { none, before, before_with_inner, inside, early };

/// A use and the uses that its hooks surround.
struct Node {
  int use;
  std::vector<Node> inner = {};
  Recompute recompute = Recompute::none;
};

struct SetPlan {
  int module, parameter;
  int salt;
};

struct MicroBatch {
  int time = 0; ///< number over all steps
  std::optional<SetPlan> set;
  std::optional<SetPlan> set_inside; ///< behind the first use of the forward pass; not of a dense layer
  bool evaluates = false;
  bool drops = false;                 ///< what earlier micro-batches of the step contributed
  bool begins_backward = true;        ///< says so; always where recomputations may come first
  std::vector<char> is_skipped;       ///< [rank]: only where the order is known
  std::vector<char> is_without_empty; ///< [rank]: leaves out the hooks of modules without parameters
  std::vector<Use> uses;
  std::vector<Node> forward, backward;
};

/// Weights are looked at outside a pass, and those that run next are gathered with them.
struct Look {
  int module;
  bool is_forward;
};

struct StepPlan {
  bool adds_up = false; ///< no zero_grad since the step before
  bool reads_whole = false;
  std::optional<Look> look; ///< before the update
  std::vector<MicroBatch> micro_batches;
};

struct Plan {
  std::uint64_t seed;
  int ranks;
  std::vector<int> mesh;
  int recipe = 0; ///< as numbered in the C ABI
  bool is_mean = false;
  int gradient_slots = 2;
  bool is_unified = false;
  std::optional<std::int64_t> prefetch;
  std::optional<Type> compute;
  bool is_adamw = false;
  bool is_fused = false; ///< updates with reductions: then weights and gradients are not to be had before the update
  double rate = 0.125, momentum = 0, weight_decay = 0;
  std::vector<ModulePlan> modules;
  std::vector<StepPlan> steps;

  /// Weights and contributions that everybody agrees on; `parameter_name` tells uses under tied names apart.
  double initial_value(int module, int parameter, int salt, std::int64_t i) const {
    return short_fraction({-1, salt, module, parameter, i});
  }
  double contribution(int rank, int time, int use, int parameter, int parameter_name, std::int64_t i) const {
    return short_fraction({rank, time, use, parameter, parameter_name, i});
  }
  std::string full_name(int module) const {
    const std::string name = "m" + std::to_string(module);
    const int parent = modules[module].parent;
    return parent < 0 ? name : full_name(parent) + "." + name;
  }
};

/// Whether a rank takes its time for a use, so that ranks are not always in step.
inline bool is_slow(int rank, int time, int use) { return mix({rank, time, use}) % 16 == 0; }

/// Values of one parameter each: [module][parameter].
using Weights = std::vector<std::vector<std::vector<double>>>;

/// The data of a use of a dense layer on a rank.
inline std::vector<double> dense_data(int rank, int time, int use, int rows, int columns, bool is_target) {
  std::vector<double> data;
  for (int i = 0; i < rows * columns; ++i)
    data.push_back(short_fraction({rank, time, use, is_target ? 1 : 0, i}) / 2);
  return data;
}
inline int dense_rows(int rank, int time) { return 1 + (rank + time) % 3; }

} // namespace ostraka::fsdp::test::trees
