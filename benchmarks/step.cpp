// SPDX-License-Identifier: Apache-2.0
// A ZeRO-3 step that is nearly all communication: forward and backward through 8 layers of 2048 x 2048 f32 with one row
// of input. Exposed is a step minus the same arithmetic without any communication, of the same round; the limit is a
// reduce-scatter of all gradients between private buffers. Medians of interleaved rounds. Foreseen is what the room
// plan says, from the arithmetic of the same rounds, on weights where the step has them, and from what `collectives`
// measured right before. usage: step [--machine FILE] ... [NAME STEP_MS EXPOSED_MS] ..., files of collectives --json,
// and steps of others that were measured at the same time (step.peers)

// ranks: 2
// machine: f32 67108864 16384
#include "support/limit.hpp"
#include "support/node.hpp"
#include "support/prediction.hpp"
#include "support/steps.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace ostraka;
using namespace ostraka::bench;

namespace {

constexpr int num_rounds = 9;
constexpr double most_foreseen_error = 0.25; // issue 12
constexpr double none = std::numeric_limits<double>::infinity();

using Weights = std::vector<std::vector<float>>;

enum Column { step, two_buffers, buffer_per_layer, limit, forward, arithmetic };

/// At most so many times the limit, exposed, and so long a gather of a layer (issue 6).
struct Target {
  double two = none;
  double per_layer = none;
  double gather_us = none;
};

struct Row {
  std::string name;
  Target target;
  Rounds rounds;
  double gather_us = 0;  ///< of a layer
  double foreseen_s = 0; ///< a step, by the room plan; 0: not asked

  double exposed(Column base) const {
    return rounds.median([&](int i) { return rounds.us[step][i] - rounds.us[base][i]; }) / 1000;
  }
  double of_limit(Column base) const {
    return rounds.median([&](int i) { return (rounds.us[step][i] - rounds.us[base][i]) / rounds.us[limit][i]; });
  }
  bool misses() const {
    return of_limit(two_buffers) > target.two || of_limit(buffer_per_layer) > target.per_layer ||
           gather_us > target.gather_us;
  }

  double foreseen_ratio() const { return 1e6 * foreseen_s / rounds.median(step); }
  bool is_foreseen() const { return std::abs(foreseen_ratio() - 1) <= most_foreseen_error; }
  Arithmetic arithmetic_s() const {
    return {1e-6 * rounds.median(forward),
            1e-6 * rounds.median([&](int i) { return rounds.us[arithmetic][i] - rounds.us[forward][i]; })};
  }

  void print() const {
    std::printf("%-34s %8.1f %8.1f %8.1f %8.1f %8.1f %7.2f %7.2f %9.1f %7.0f %6d %6d", name.c_str(),
                rounds.median(step) / 1000, rounds.median(two_buffers) / 1000, rounds.median(limit) / 1000,
                exposed(two_buffers), exposed(buffer_per_layer), of_limit(two_buffers), of_limit(buffer_per_layer),
                gather_us, rounds.median_line_ns(), rounds.size(), rounds.discarded);
    if (foreseen_s > 0)
      std::printf(" %8.1f %7.2f", 1e3 * foreseen_s, foreseen_ratio());
    std::printf("%s%s%s\n", rounds.is_calm ? "" : "  disturbed", misses() ? "  misses its target" : "",
                foreseen_s > 0 && !is_foreseen() ? "  not foreseen" : "");
    std::fflush(stdout);
  }
};

/// What every row is compared with, in the same rounds.
struct Bases {
  LonelyStep two, per_layer, two_updating, per_layer_updating, two_of_half, per_layer_of_half;
  Operation limit;
  Weights no_gradients, two_gradients; ///< of arithmetic on shared weights

  Bases(const Weights& weights, int ranks)
      : two(weights, 2, {}, ranks), per_layer(weights, num_layers, {}, ranks),
        two_updating(weights, 2, {DType::f32, true}, ranks),
        per_layer_updating(weights, num_layers, {DType::f32, true}, ranks),
        two_of_half(weights, 2, {DType::bf16}, ranks), per_layer_of_half(weights, num_layers, {DType::bf16}, ranks),
        limit(make_limit({ranks, 1, num_layers * layer_elements / ranks * size_of(DType::f32)}, DType::f32)),
        two_gradients(2, std::vector<float>(layer_elements)) {}

  /// `shared`: a step whose arithmetic reads weights that the ranks share, for plans; null: none.
  Row compare(std::string name, const Target& target, const Operation& taken, const Kind& kind = {},
              LibraryStep* shared = nullptr) {
    const bool is_half = kind.storage == DType::bf16;
    LonelyStep& two_buffers = kind.updates ? two_updating : is_half ? two_of_half : two;
    LonelyStep& each = kind.updates ? per_layer_updating : is_half ? per_layer_of_half : per_layer;
    LonelyStep& pure = is_half ? two_of_half : two; // without updates
    const Operation forward = [&] { shared ? shared->compute(no_gradients) : pure.forward(); };
    const Operation arithmetic = [&] { shared ? shared->compute(two_gradients) : pure(); };
    const std::vector<Operation> operations{taken, [&] { two_buffers(); }, [&] { each(); }, limit, forward, arithmetic};
    for (const Operation& operation : operations)
      operation(); // touches its memory
    return {std::move(name), target, measure(operations, std::vector<int>(operations.size(), 1), num_rounds)};
  }
};

// All ranks had the same input, so the sum is that many times the gradient of one.
void check_gradients(const LibraryStep& taken, LonelyStep& lonely, float tolerance, const std::string& name) {
  for (int layer = 0; layer < num_layers; ++layer) {
    const buffer::TensorRange found = taken.main_gradient(layer);
    const float ranks = static_cast<float>(taken.mesh()->size());
    for (std::int64_t i = 0; i < found.count; ++i) {
      const float expected = lonely.gradient(layer)[found.offset + i];
      const float error = std::abs(static_cast<const float*>(found.data)[i] / ranks - expected);
      expect(error <= tolerance * (1 + std::abs(expected)), Status::INTERNAL, name, ": the gradient of layer ", layer,
             " is wrong");
    }
  }
}

template <class Step>
double gather_us_of(Step& taken) {
  const Operation gather = [&] { taken.gather_all(); };
  return measure({gather}, {choose_repeats(gather)}, num_rounds).median(0) / num_layers;
}

/// The library on a back end, which is a mesh's to choose.
Row measure_library(const char* backend, const std::string& name, const Target& target, const Weights& weights,
                    const Kind& kind, Bases& bases, const std::optional<plan::Machine>& machine) {
  setenv("OSTRAKA_BACKEND", backend, 1);
  LibraryStep taken(weights, kind);
  const bool shares = is_on_one_node(taken.mesh());
  taken();
  bases.per_layer();
  if (!kind.updates) // which change the weights
    check_gradients(taken, bases.per_layer, kind.storage == DType::bf16 ? 0.05f : 1e-5f, name);
  Row row = bases.compare(
      name + (shares ? ", node" : ", messages"), shares ? target : Target{}, [&] { taken(); }, kind,
      shares ? &taken : nullptr);
  row.gather_us = gather_us_of(taken);
  if (machine)
    row.foreseen_s = foreseen_step(kind, shares ? plan::Backend::node : plan::Backend::mpi, taken.mesh()->size(),
                                   row.arithmetic_s(), *machine);
  return row;
}

Row measure_stock(const Weights& weights, Bases& bases) {
  StockStep taken(weights, MPI_COMM_WORLD);
  Row row = bases.compare("MPI alone", {}, [&] { taken(); });
  row.gather_us = gather_us_of(taken);
  return row;
}

// --- comparisons between rows

void print_factor(const char* of, double exposed, double ours, double least, bool has_target) {
  if (ours <= 0)
    std::printf("  %-18s %8.1f ms exposed; ours is hidden\n", of, exposed);
  else
    std::printf("  %-18s %8.1f ms exposed, %5.1f times ours%s\n", of, exposed, exposed / ours,
                has_target && exposed < least * ours ? "  misses its target" : "");
}

void print_peers(int count, char** arguments, const Row& ours, const Row& stock, const Row& messages, int ranks) {
  const bool has_target = ranks == 2;
  const double exposed = ours.exposed(two_buffers);
  std::printf("exposed against two buffers, '%s' %.1f ms; others:\n", ours.name.c_str(), exposed);
  print_factor(stock.name.c_str(), stock.exposed(two_buffers), exposed, 8, has_target);
  print_factor(messages.name.c_str(), messages.exposed(two_buffers), exposed, 0, false);
  for (int i = 0; i + 2 < count; i += 3) {
    const std::string name = arguments[i];
    const double least = name == "FSDP2" ? 30 : name == "DDP" ? 15 : 0;
    std::printf("  PyTorch %s: a step of %s ms\n", name.c_str(), arguments[i + 1]);
    print_factor(name.c_str(), std::atof(arguments[i + 2]), exposed, least, has_target);
  }
}

// --- what the hooks cost where nothing moves

constexpr int hook_steps = 2000;
constexpr std::int64_t small = 64; ///< elements of a parameter

void print_hooks() {
  fsdp::ContextConfig config;
  config.recipe = fsdp::Recipe::no_shard;
  const auto context = fsdp::FsdpContext::create(mesh::DeviceMesh::create_line(MPI_COMM_SELF), config);
  std::vector<fsdp::FsdpModule*> modules;
  for (int layer = 0; layer < num_layers; ++layer) {
    modules.push_back(&context->add_module("layer" + std::to_string(layer)));
    modules.back()->add_parameter({"weight", {small}, DType::f32});
    modules.back()->build();
  }
  context->finalize();
  using Clock = std::chrono::steady_clock;
  std::array<Clock::duration, 4> spent{};
  const auto timed = [&](std::size_t which, auto&& hook) {
    const Clock::time_point start = Clock::now();
    hook();
    spent[which] += Clock::now() - start;
  };
  for (int i = 0; i < hook_steps; ++i) {
    context->zero_grad();
    for (fsdp::FsdpModule* module : modules) {
      timed(0, [&] { module->pre_forward(); });
      timed(1, [&] { module->post_forward(); });
    }
    for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
      timed(2, [&] { (*module)->pre_backward(); });
      std::fill_n(static_cast<float*>((*module)->gradient("weight", DType::f32).data), small, 1.0f);
      timed(3, [&] { (*module)->post_backward(); });
    }
    context->finish_backward();
  }
  const auto us = [&](std::size_t which) {
    return std::chrono::duration<double, std::micro>(spent[which]).count() / hook_steps / num_layers;
  };
  std::printf(
      "hooks on one rank, everything resident, us each: pre_forward %.2f, post_forward %.2f, pre_backward %.2f, "
      "post_backward %.2f\n",
      us(0), us(1), us(2), us(3));
}

/// Takes "--machine FILE" from the front of `arguments` as often as it is there.
std::optional<plan::Machine> take_machine(int& count, char**& arguments) {
  std::vector<std::string> files;
  for (; count >= 2 && std::string_view(arguments[0]) == "--machine"; count -= 2, arguments += 2)
    files.push_back(arguments[1]);
  return files.empty() ? std::nullopt : std::optional(read_machine(files));
}

void run(int count, char** arguments) {
  const std::optional<plan::Machine> machine = take_machine(count, arguments);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  expect(layer_elements % ranks == 0, Status::INVALID_ARGUMENT, "step: ", ranks, " ranks do not divide a layer");
  if (rank == 0)
    std::printf("%d ranks, %d layers of %lld x %lld f32; ms; exposed against arithmetic with two gradient buffers and "
                "with one per layer; foreseen by plan\n%-34s %8s %8s %8s %8s %8s %7s %7s %9s %7s %6s %6s %8s %7s\n",
                ranks, num_layers, static_cast<long long>(dim), static_cast<long long>(dim), "step", "step", "alone 2",
                "limit", "exp. 2", "exp. L", "x lim 2", "x lim L", "gather us", "line ns", "rounds", "thrown",
                "foreseen", "x step");
  Weights weights;
  for (int layer = 0; layer < num_layers; ++layer)
    weights.push_back(make_weight(layer));
  Bases bases(weights, ranks);
  const bool has_targets = ranks == 2 || ranks == 4;
  const double gather_us = ranks == 2 ? 2 : none;
  const Target plain = has_targets ? Target{0.75, 0.5, gather_us} : Target{},
               fused = has_targets ? Target{0, none, gather_us} : Target{},
               half = has_targets ? Target{0.5, none, gather_us} : Target{};
  const auto print = [&](Row row) {
    if (rank == 0)
      row.print();
    return row;
  };
  print(measure_library("node", "f32, ring of 2", plain, weights, {DType::f32, false, false, false}, bases, machine));
  const Row ours = print(measure_library("node", "f32", plain, weights, {}, bases, machine));
  print(measure_library("node", "f32, AdamW", half, weights, {DType::f32, true}, bases, machine));
  print(measure_library("node", "the same, fused", fused, weights, {DType::f32, true, true}, bases, machine));
  print(measure_library("node", "bf16 weights, f32 main", half, weights, {DType::bf16, false}, bases, machine));
  const Row messages = print(measure_library("mpi", "f32", {}, weights, {}, bases, machine));
  const Row stock = print(measure_stock(weights, bases));
  if (rank != 0)
    return;
  print_peers(count, arguments, ours, stock, messages, ranks);
  print_hooks();
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int status = 0;
  try {
    const runtime::Session session;
    run(argc - 1, argv + 1);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name(error.status()), error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
    status = 1;
  }
  MPI_Finalize();
  return status;
}
